/* SPDX-License-Identifier: MIT */
/* The requirements that can be seen on the wire, under the ids of docs/requirements. */
#ifndef UIW_DUMP_REQUIRE_H
#define UIW_DUMP_REQUIRE_H

/* X(name, id, what is required) */
#define REQUIRE_LIST(X)                                                                        \
    X(ULPDU_MAX, "MPA-5044-3-05", "no ULPDU is above 64768 octets")                            \
    X(PAD_ZERO, "MPA-5044-4.1-03", "pad octets are zero")                                      \
    X(MARKER_RSVD, "MPA-5044-4.2-02", "the Marker's reserved half is zero")                    \
    X(MARKER_LOW, "MPA-5044-4.2-04", "the two low bits of FPDUPTR are zero")                   \
    X(MARKER_PTR, "MPA-5044-4.3-03", "FPDUPTR points at the FPDU the Marker is in")            \
    X(CRC_SENT, "MPA-5044-4.4-07", "CRCs are generated once C=1 was declared")                 \
    X(CRC_VALUE, "MPA-5044-4.4-10", "the CRC field holds the CRC-32C of the FPDU")             \
    X(REQ_KEY, "MPA-5044-7.1.1-01", "the Request's key is \"MPA ID Req Frame\"")               \
    X(REP_KEY, "MPA-5044-7.1.1-03", "the Reply's key is \"MPA ID Rep Frame\"")                 \
    X(REQ_REJECT, "MPA-5044-7.1.1-12", "R is zero in a Request")                               \
    X(SETUP_RSVD, "MPA-5044-7.1.1-15", "reserved bits of octet 16 are zero")                   \
    X(REV, "MPA-5044-7.1.1-17", "Rev is 1, or 2 with RFC 6581")                                \
    X(PD_LENGTH, "MPA-5044-7.1.1-21", "PD_Length counts the Private Data that follows")        \
    X(PD_MAX, "MPA-5044-7.1.1-24", "Private Data is 512 octets at most")                       \
    X(WAIT_REPLY, "MPA-5044-7.1.2-11", "the Initiator waits for the Reply")                    \
    X(RESPONDER_FIRST, "MPA-5044-7.1.2-15", "the Responder sends no FPDU before it has one")   \
    X(MULPDU, "DDP-5041-5.2-01", "a segment is no larger than MULPDU")                         \
    X(DDP_RSVD, "DDP-5041-4.1-08", "the reserved DDP control bits are zero")                   \
    X(DDP_VERSION_, "DDP-5041-4.1-10", "DV is 1")                                              \
    X(TAGGED_ULP, "DDP-5041-4.2-04", "all tagged segments of a message have the same RsvdULP") \
    X(TAGGED_STAG, "DDP-5041-4.2-08", "all segments of a message have the same STag")          \
    X(UNTAGGED_ULP, "DDP-5041-4.3-04", "all segments of a message have the same RsvdULP")      \
    X(MSN_NEXT, "DDP-5041-4.3-07", "MSN rises by one per message")                             \
    X(MSN_FIRST, "DDP-5041-4.3-08", "the first MSN on a queue is 1")                           \
    X(MO_FIRST, "DDP-5041-4.3-11", "the MO of a message's first octet is 0")                   \
    X(DDP_HEADER, "DDP-5041-4.4-01", "every segment has a DDP header")                         \
    X(MO_NEXT, "DDP-5041-5.2-05", "MO is the payload's offset in the message")                 \
    X(TO_NEXT, "DDP-5041-5.2-07", "TO is the start TO plus the payload's offset")              \
    X(TO_WRAP, "DDP-5041-7.1-14", "TO plus length does not wrap")                              \
    X(QN_RANGE, "DDP-5041-7.1-01", "QN is valid for the stream")                               \
    X(TAGGED_FIT, "RDMAP-5040-4.1-04", "T fits the opcode")                                    \
    X(QN_FIT, "RDMAP-5040-4.1-06", "QN fits the opcode")                                       \
    X(RDMAP_VERSION_, "RDMAP-5040-4.1-07", "RV is 1")                                          \
    X(RDMAP_RSVD, "RDMAP-5040-4.1-08", "the reserved RDMAP control bits are zero")             \
    X(INV_ZERO, "RDMAP-5040-4.1-10", "the Invalidate STag field is zero where it is not used") \
    X(READ_LENGTH, "RDMAP-5040-4.4-01", "a Read Request has a header of 28 octets")            \
    X(READ_STAG, "RDMAP-5040-4.4-02", "the Read Response has the request's sink STag")         \
    X(READ_TO, "RDMAP-5040-4.4-03", "the Read Response begins at the request's sink TO")       \
    X(TERM_LAYOUT, "RDMAP-5040-4.8-02", "Terminate control bits: Layer, EType, Code, M D R")   \
    X(TERM_CODE, "RDMAP-5040-4.8-03", "only defined layer, type and code values are used")     \
    X(TERM_RSVD, "RDMAP-5040-4.8-07", "the 13 reserved Terminate bits are zero")               \
    X(TERM_HEADER, "RDMAP-5040-4.8-11", "the DDP header is there when D is set")               \
    X(TERM_RDMA, "RDMAP-5040-4.8-13", "the RDMA header is there when R is set")                \
    X(READ_ASKED, "RDMAP-5040-5.2-01", "a Read Response answers a Read Request")               \
    X(READ_WHOLE, "RDMAP-5040-5.2.1-11", "the Read Response has the length asked for")         \
    X(READ_ORDER, "RDMAP-5040-5.2.2-06", "Read Responses come in the order of the requests")   \
    X(AFTER_TERM, "RDMAP-5040-5.4-08", "nothing is sent after a Terminate")                    \
    X(OVER_ORD, "RDMAP-5040-6.1-04", "outstanding Reads do not exceed ORD")                    \
    X(ENH_SHORT, "ECM-6581-6-06", "with S=1 the Private Data begins with the enhanced word")   \
    X(ORD_BOUND, "ECM-6581-9.1-04", "the Responder's ORD is at most the Initiator's IRD")      \
    X(IRD_UNSET, "ECM-6581-9.1-11", "ORD 0x3fff is answered by IRD 0x3fff")                    \
    X(ORD_UNSET, "ECM-6581-9.1-13", "IRD 0x3fff is answered by ORD 0x3fff")                    \
    X(RTR_OFFER, "ECM-6581-9.2-02", "A=1 offers at least one kind of RTR")                     \
    X(A_ANSWER, "ECM-6581-9.2-04", "A=1 is answered by A=1")                                   \
    X(RTR_ANSWER, "ECM-6581-9.2-09", "a Reply with A=1 names at least one kind of RTR")        \
    X(RTR_SENT, "ECM-6581-9.2-10", "the Initiator's first FPDU is an agreed RTR")              \
    X(A_NOT_ASKED, "ECM-6581-9.2-13", "A=0 is answered by A=0")                                \
    X(FLAGS_ZERO, "ECM-6581-9.2-14", "with A=0 the RTR flags are zero")                        \
    X(ENH_ANSWER, "ECM-6581-10-01", "an enhanced Request gets an enhanced Reply")              \
    X(PLAIN_ANSWER, "ECM-6581-10-02", "an unenhanced Request gets an unenhanced Reply")        \
    X(ATOMIC_LENGTH, "EXT-7306-4-02", "an Atomic Request has a header of 52 octets")           \
    X(ATOMIC_RESP_LEN, "EXT-7306-4-03", "an Atomic Response has a header of 12 octets")        \
    X(EXT_INV_ZERO, "EXT-7306-4.1-03", "the Invalidate STag field is zero")                    \
    X(ATOMIC_RSVD, "EXT-7306-5.2.1-01", "the 28 reserved bits of an Atomic Request are zero")  \
    X(ATOMIC_AOP, "EXT-7306-10-01", "AOpCode is FetchAdd or CmpSwap")                          \
    X(ATOMIC_FETCH, "EXT-7306-5.2.1-06", "FetchAdd has Compare Data 0 and a mask of ones")     \
    X(ATOMIC_ID, "EXT-7306-5.2.1-03", "an Atomic Response has the request's identifier")       \
    X(IMM_LENGTH, "EXT-7306-6.3-05", "Immediate Data is 8 octets")                             \
    X(OPCODE, "REG-6580-3.4-01", "the opcode is assigned")

enum require {
#define REQUIRE_ENUM(name, id, text) REQUIRE_##name,
    REQUIRE_LIST(REQUIRE_ENUM)
#undef REQUIRE_ENUM
        REQUIRE_COUNT
};

const char *require_id(enum require r);
const char *require_text(enum require r);

#endif
