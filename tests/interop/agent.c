/* SPDX-License-Identifier: MIT */
/* agent DIR: carries out in the guest what lab.sh asks for. Starting a process costs a guest dearly,
 * so this is no shell script.
 *
 * DIR/cmd/1, 2, ... are commands of one line, all of them carried out at once. When N is done, its
 * status is in DIR/done/N.rc:
 *   run WORDS...   a program, its output in DIR/done/N.out and N.err
 *   sh TEXT        the same by a shell
 *   listens PORT   done when something listens there; status 1 after 10 seconds
 *   kill N         ends what command N started
 *   stop           ends the agent
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { COMMANDS = 4096, WORDS = 64, TURN_US = 5000, LISTEN_S = 10 };

enum state { IDLE, RUNNING, LISTENING };

static struct command {
    enum state state;
    pid_t pid;
    unsigned port;
    time_t until;
} commands[COMMANDS];

extern char **environ;
static const char *dir;

static void file_name(char *out, size_t room, unsigned n, const char *kind)
{
    snprintf(out, room, "%s/done/%u.%s", dir, n, kind);
}

/* By renaming, because whoever waits for the file reads it at once. */
static void finish(unsigned n, int status)
{
    char name[256], final[256];
    FILE *f;

    file_name(name, sizeof name, n, "new");
    file_name(final, sizeof final, n, "rc");
    f = fopen(name, "w");
    if (f == NULL)
        return;
    fprintf(f, "%d\n", status);
    fclose(f);
    rename(name, final);
    commands[n].state = IDLE;
}

static void spawn(unsigned n, char *const *argv)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    char out[256], err[256];
    int error;

    file_name(out, sizeof out, n, "out");
    file_name(err, sizeof err, n, "err");
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_APPEND, 0644);
    posix_spawn_file_actions_addopen(&files, 2, err, O_WRONLY | O_CREAT | O_APPEND, 0644);
    /* A group of its own, for "kill". */
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP);
    error = posix_spawnp(&commands[n].pid, argv[0], &files, &attr, argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0)
        finish(n, 127);
    else
        commands[n].state = RUNNING;
}

static void run_words(unsigned n, char *text)
{
    char *argv[WORDS + 1], *save;
    unsigned words = 0;

    for (char *w = strtok_r(text, " ", &save); w != NULL && words < WORDS;
         w = strtok_r(NULL, " ", &save))
        argv[words++] = w;
    argv[words] = NULL;
    if (words > 0)
        spawn(n, argv);
    else
        finish(n, 127);
}

static void run_shell(unsigned n, char *text)
{
    static char sh[] = "sh", c[] = "-c";
    char *argv[] = {sh, c, text, NULL};

    spawn(n, argv);
}

static void kill_command(unsigned n, unsigned which)
{
    if (which < COMMANDS && commands[which].state == RUNNING)
        kill(-commands[which].pid, SIGKILL);
    finish(n, 0);
}

/* False: stop. */
static bool begin(unsigned n, char *text)
{
    if (strncmp(text, "run ", 4) == 0) {
        run_words(n, text + 4);
    } else if (strncmp(text, "sh ", 3) == 0) {
        run_shell(n, text + 3);
    } else if (strncmp(text, "listens ", 8) == 0) {
        commands[n].state = LISTENING;
        commands[n].port = (unsigned)strtoul(text + 8, NULL, 10);
        commands[n].until = time(NULL) + LISTEN_S;
    } else if (strncmp(text, "kill ", 5) == 0) {
        kill_command(n, (unsigned)strtoul(text + 5, NULL, 10));
    } else {
        finish(n, strcmp(text, "stop") == 0 ? 0 : 127);
        return strcmp(text, "stop") != 0;
    }
    return true;
}

/* Whether that table of the kernel's has the port in state LISTEN (0A). */
static bool listed(const char *table, unsigned port)
{
    char line[256];
    FILE *f = fopen(table, "r");
    bool found = false;
    unsigned local, state;

    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, " %*u: %*32[0-9A-F]:%4x %*32[0-9A-F]:%*4x %2x", &local, &state) == 2)
            found = local == port && state == 0x0a;
    }
    if (f != NULL)
        fclose(f);
    return found;
}

static bool listens(unsigned port)
{
    return listed("/proc/net/tcp", port) || listed("/proc/net/tcp6", port);
}

static void reap(unsigned n)
{
    int status;

    if (waitpid(commands[n].pid, &status, WNOHANG) != commands[n].pid)
        return;
    finish(n, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

static void look_after(unsigned n)
{
    struct command *c = &commands[n];

    if (c->state == RUNNING)
        reap(n);
    else if (c->state == LISTENING && listens(c->port))
        finish(n, 0);
    else if (c->state == LISTENING && time(NULL) > c->until)
        finish(n, 1);
}

/* Command n, when it is there. */
static bool next_command(unsigned n, char *text, size_t room)
{
    char name[256];
    ssize_t got;
    int fd;

    snprintf(name, sizeof name, "%s/cmd/%u", dir, n);
    fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    got = read(fd, text, room - 1);
    close(fd);
    text[got < 0 ? 0 : got] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return true;
}

int main(int argc, char **argv)
{
    static char text[8192];
    unsigned next = 1;

    if (argc != 2)
        return 2;
    dir = argv[1];
    while (next < COMMANDS) {
        if (next_command(next, text, sizeof text)) {
            if (!begin(next++, text))
                return 0;
            continue;
        }
        for (unsigned n = 1; n < next; n++)
            look_after(n);
        usleep(TURN_US);
    }
    return 1;
}
