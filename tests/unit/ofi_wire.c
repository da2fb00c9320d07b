/* Address blobs and message headers of the ofi transport: what is written is read back, noise is refused. */
#include "transports/ofi/wire.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <string.h>

static struct hc_ofi_address ipv4(const char *host, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct hc_ofi_address address = {.profile = 2,
                                     .format = HC_OFI_FORMAT_IPV4,
                                     .pid = 77,
                                     .scope = 0x1122334455667788,
                                     .name_len = sizeof(in)};
    cr_assert_eq(inet_pton(AF_INET, host, &in.sin_addr), 1);
    memcpy(address.name, &in, sizeof(in));
    return address;
}

static struct hc_ofi_address ipv6(const char *host)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
    struct hc_ofi_address address = {.format = HC_OFI_FORMAT_IPV6, .name_len = sizeof(in6)};
    cr_assert_eq(inet_pton(AF_INET6, host, &in6.sin6_addr), 1);
    memcpy(address.name, &in6, sizeof(in6));
    return address;
}

Test(ofi_wire, address_comes_back_as_it_was)
{
    uint8_t blob[HC_OFI_ADDRESS_MAX];
    struct hc_ofi_address in = ipv4("192.0.2.7", 4000), out;
    size_t len = hc_ofi_address_pack(&in, blob);
    cr_assert_eq(hc_ofi_address_parse(blob, len, &out), HCOMM_OK);
    cr_expect_eq(out.profile, in.profile);
    cr_expect_eq(out.format, in.format);
    cr_expect_eq(out.pid, in.pid);
    cr_expect_eq(out.scope, in.scope);
    cr_expect_eq(out.name_len, in.name_len);
    cr_expect_eq(memcmp(out.name, in.name, in.name_len), 0);
    char text[64];
    cr_expect_str_eq(hc_ofi_address_text(&out, text, sizeof(text)), "192.0.2.7 port 4000");
}

Test(ofi_wire, address_layout_is_the_same_on_every_machine)
{
    uint8_t blob[HC_OFI_ADDRESS_MAX];
    struct hc_ofi_address in = {.profile = 3,
                                .format = HC_OFI_FORMAT_TEXT,
                                .pid = 0x01020304,
                                .scope = 0x0102030405060708,
                                .name_len = 2};
    memcpy(in.name, "x", 2);
    const uint8_t expected[] = {0xa7, 2, 3, 3, 2, 0, 0, 0, 4, 3, 2, 1,   0,
                                0,    0, 0, 8, 7, 6, 5, 4, 3, 2, 1, 'x', 0};
    cr_assert_eq(hc_ofi_address_pack(&in, blob), sizeof(expected));
    cr_expect_eq(memcmp(blob, expected, sizeof(expected)), 0);
}

Test(ofi_wire, address_of_any_other_length_is_refused)
{
    uint8_t blob[HC_OFI_ADDRESS_MAX + 1] = {0};
    struct hc_ofi_address in = ipv4("192.0.2.7", 4000), out;
    size_t len = hc_ofi_address_pack(&in, blob);
    for (size_t cut = 0; cut < len; cut++)
        cr_expect_eq(hc_ofi_address_parse(blob, cut, &out), HCOMM_ERR_PROTOCOL, "cut to %zu", cut);
    cr_expect_eq(hc_ofi_address_parse(blob, len + 1, &out), HCOMM_ERR_PROTOCOL);
}

Test(ofi_wire, address_whose_name_does_not_fit_its_format_is_refused)
{
    uint8_t blob[HC_OFI_ADDRESS_MAX];
    struct hc_ofi_address in = ipv4("192.0.2.7", 4000), out;
    in.format = HC_OFI_FORMAT_IPV6;
    cr_expect_eq(hc_ofi_address_parse(blob, hc_ofi_address_pack(&in, blob), &out), HCOMM_ERR_PROTOCOL);
    in.format = HC_OFI_FORMAT_TEXT; /* not ended by a zero byte: the provider would read on */
    in.name[in.name_len - 1] = 'x';
    cr_expect_eq(hc_ofi_address_parse(blob, hc_ofi_address_pack(&in, blob), &out), HCOMM_ERR_PROTOCOL);
    in.format = 99;
    cr_expect_eq(hc_ofi_address_parse(blob, hc_ofi_address_pack(&in, blob), &out), HCOMM_ERR_PROTOCOL);
}

Test(ofi_wire, refused_address_leaves_the_result_alone)
{
    struct hc_ofi_address out, before;
    memset(&out, 0x5a, sizeof(out));
    memcpy(&before, &out, sizeof(out));
    cr_assert_eq(hc_ofi_address_parse("noise", 5, &out), HCOMM_ERR_PROTOCOL);
    cr_expect_eq(memcmp(&out, &before, sizeof(out)), 0);
}

Test(ofi_wire, loopback_is_recognised_in_both_families)
{
    struct hc_ofi_address addresses[] = {ipv4("127.0.0.1", 1), ipv4("127.9.9.9", 1), ipv6("::1"),
                                         ipv4("128.0.0.1", 1), ipv6("fd00::1")};
    const bool expected[] = {true, true, true, false, false};
    for (size_t i = 0; i < sizeof(expected); i++)
        cr_expect_eq(hc_ofi_address_is_loopback(&addresses[i]), expected[i], "address %zu", i);
}

Test(ofi_wire, same_host_ignores_the_port)
{
    struct hc_ofi_address a = ipv4("192.0.2.7", 1), b = ipv4("192.0.2.7", 2), c = ipv4("192.0.2.8", 1),
                          d = ipv6("fd00::7"), e = ipv6("fd00::8");
    cr_expect(hc_ofi_address_same_host(&a, &b));
    cr_expect_not(hc_ofi_address_same_host(&a, &c));
    cr_expect(hc_ofi_address_same_host(&d, &d));
    cr_expect_not(hc_ofi_address_same_host(&d, &e));
    cr_expect_not(hc_ofi_address_same_host(&a, &d));
}

Test(ofi_wire, header_comes_back_as_it_was)
{
    uint8_t message[HC_OFI_HEADER_SIZE + 5];
    struct hc_ofi_header in = {.id = 9, .job = 0xbeef, .from = 3, .length = 5, .sequence = 0xfffffffe}, out;
    hc_ofi_header_pack(&in, message);
    cr_assert_eq(hc_ofi_header_parse(message, sizeof(message), 0xbeef, 4, &out), HCOMM_OK);
    cr_expect_eq(out.id, in.id);
    cr_expect_eq(out.from, in.from);
    cr_expect_eq(out.length, in.length);
    cr_expect_eq(out.sequence, in.sequence);
}

Test(ofi_wire, header_that_cannot_be_right_is_refused)
{
    uint8_t message[HC_OFI_HEADER_SIZE + 8] = {0};
    struct hc_ofi_header in = {.id = 9, .job = 1, .from = 3, .length = 8}, out;
    hc_ofi_header_pack(&in, message);
    size_t len = sizeof(message);
    cr_assert_eq(hc_ofi_header_parse(message, len, 1, 4, &out), HCOMM_OK);
    cr_expect_eq(hc_ofi_header_parse(message, len, 2, 4, &out), HCOMM_ERR_PROTOCOL, "another job");
    cr_expect_eq(hc_ofi_header_parse(message, len, 1, 3, &out), HCOMM_ERR_PROTOCOL, "no such rank");
    cr_expect_eq(hc_ofi_header_parse(message, len - 1, 1, 4, &out), HCOMM_ERR_PROTOCOL, "a byte is missing");
    cr_expect_eq(hc_ofi_header_parse(message, HC_OFI_HEADER_SIZE - 1, 1, 4, &out), HCOMM_ERR_PROTOCOL,
                 "too short");
    message[0]++;
    cr_expect_eq(hc_ofi_header_parse(message, len, 1, 4, &out), HCOMM_ERR_PROTOCOL, "another version");
}

Test(ofi_wire, record_of_a_batch_comes_back_as_it_was)
{
    uint8_t batch[32] = {0};
    struct hc_ofi_record out;
    hc_ofi_record_pack(9, 11, batch);
    cr_expect_eq(hc_ofi_record_size(11), HC_OFI_RECORD_SIZE + 16);
    cr_assert(hc_ofi_record_parse(batch, HC_OFI_RECORD_SIZE + 16, &out));
    cr_expect_eq(out.id, 9);
    cr_expect_eq(out.length, 11);
}

Test(ofi_wire, record_that_cannot_be_right_is_refused)
{
    uint8_t batch[HC_OFI_RECORD_SIZE + 8] = {0};
    struct hc_ofi_record out;
    hc_ofi_record_pack(9, 8, batch);
    cr_assert(hc_ofi_record_parse(batch, sizeof(batch), &out));
    cr_expect_not(hc_ofi_record_parse(batch, sizeof(batch) - 1, &out), "a byte is missing");
    cr_expect_not(hc_ofi_record_parse(batch, HC_OFI_RECORD_SIZE - 1, &out), "a part of a head");
    hc_ofi_record_pack(9, UINT32_MAX, batch);
    cr_expect_not(hc_ofi_record_parse(batch, sizeof(batch), &out), "far too long");
    hc_ofi_record_pack(HC_OFI_ID_BATCH, 8, batch);
    cr_expect_not(hc_ofi_record_parse(batch, sizeof(batch), &out), "a batch in a batch");
}

Test(ofi_wire, hash_is_fnv_1a)
{
    cr_expect_eq(hc_ofi_hash(HC_OFI_HASH_START, "", 0), UINT64_C(0xcbf29ce484222325));
    cr_expect_eq(hc_ofi_hash(HC_OFI_HASH_START, "foobar", 6), UINT64_C(0x85944171f73967e8));
}
