// Package receiver is the public HTTP edge: it finds the source, reads the
// body under limits, has it verified, admits what is authentic, and answers.
//
// Invariants:
//
//   - A 2xx for an event is written only after Admitter.Accept returned nil:
//     the event, its claim and its deliveries are on disk. Handshakes and
//     empty batches store nothing and say so with their answer.
//   - The bytes that are verified are the bytes that are admitted: a body is
//     never decompressed, decoded or encoded again.
//     Where a provider encrypts its bodies, the event is what arrived: targets
//     get the encrypted bytes, and only IDs and types come from inside.
//   - A verification that waits for keys to be fetched holds up nobody but its
//     own source: how many wait, and how many body bytes they hold, is bounded
//     for each source. Without the keys the answer is 503, not 401.
//   - Whatever does not verify leaves nothing in the ledger. It is counted,
//     and the latest are kept in bounded rings in memory with credentials
//     replaced by their length.
//   - The public answer to a request that does not verify is the same fixed
//     401, headers and bytes, for every reason.
//   - A request sees one generation of sources from start to end, whatever is
//     swapped in meanwhile. Counters and rings belong to the source's name and
//     survive the swap.
//   - No redirect is ever sent. A path written in another way (percent
//     encoding, doubled slashes) is no path of ours; a trailing slash is the
//     same path.
//   - Memory is bounded before anything is verified: header block, body of one
//     request, bodies in flight in all, connections, refusals kept.
//   - Metric labels come from the configuration or closed sets, never from a
//     request.
//
// Two readers of one connection that disagree on where a request ends let a
// request be smuggled past the first. A header block that can be framed in two
// ways (Content-Length beside Transfer-Encoding, either of them twice, a bare
// LF, a folded line; see framing.scan) is answered 400 and ends its
// connection, before net/http reads it. And the connection of every chunked or
// old request is closed with its answer: bytes after it are never read as
// another request. This holds for HTTP/1, in the clear and over TLS;
// HTTP/2 frames its bodies itself.
//
// Of the sender's headers only those on the source's list are kept. net/http
// does not keep the order of different names, so they are stored sorted by
// name; the values of one name keep their order and their bytes.
//
// A header block that takes longer than the header time-out ends the
// connection without an answer, as net/http does; a body that takes too long
// is answered with 408.
//
// A sender that hangs up before its answer changes nothing: what was received is
// admitted, and its redelivery is a repeat. Only a synchronous route asks whether
// its caller is still there.
//
// Echo routes requests to sources and does nothing else; nothing of an
// echo.Context leaves the adapter in edge.go.
package receiver
