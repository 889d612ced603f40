// Package badgerdb is the embedded ledger: one process, one directory, no
// server. It is the only home of Badger.
//
// Invariants:
//
//   - One writer at a time: commits, drops and upkeep hold the same lock, so
//     no commit is in flight while a bucket is dropped.
//   - Every commit is one Badger transaction, and the log it stands in is
//     synced before anyone hears of it: what Commit returned is on disk.
//   - Every record carries a version, and a checksum over its key and payload.
//     A record that fails it is dedupe.ErrDamaged, never absent.
//   - Every batch writes a head that names the one before it by hash. A file
//     beside the ledger, synced within 100 ms off the acknowledgement path,
//     remembers the newest head: a ledger that ends before it is damaged.
//   - Space comes back by dropping whole time buckets, never by TTL alone.
//   - Badger's compression is off, because a flipped bit in a compressed
//     table reads as absence; bodies and acts are compressed inside the value,
//     those of a batch together.
//
// # Directory
//
//	ledger/     Badger's files
//	highwater   number and hash of the newest head known to be on disk
//	onwire      attempts under way, so that those cut by a kill can be shown
//	ballast     space to give back when the disk is full
//	moved       where the ledger goes on, if it was moved
//
// # Keys
//
// All numbers are big-endian. C is a retention class (1 byte), T a bucket
// number (4 bytes): ledger milliseconds of the ref divided by the bucket
// length of the class, which is fixed when the class is made.
//
//	m <name>                               format, writer, class/<C>, cut/<kind><C>, sources, ...
//	h <T> <number 8>                       head of a batch; T by the audit length of class 0
//	d <P 4> <claim key 32>                 claim; P = expiry divided by the claim bucket length
//	e <C> <T> e <ref 16>                   event
//	e <C> <T> c <ref 16>                   event carried from a dropped bucket because it was open
//	e <C> <T> i <hash 16> <ref 16>         index: source and event ID to ref
//	e <C> <T> x <hash 16> <ref 16>         index: name and value of an indexed field to ref (of events at home alone)
//	e <C> <T> s <ref 16> <target>          state of a delivery (absent: as its first attempt left it, or pending)
//	e <C> <T> r <ref 16>                   tally of repeats and conflicts
//	e <C> <T> f <target> 00 <ref 16>       dead delivery; holds its order where others wait for it
//	b <C> <T> <ref 16> <chunk 2>           body of the request whose first event is ref, or several small ones, of it and of
//	                                       those after it in the batch
//	a <C> <T> <ref 16> <target> 00 <gen 2> <number 4>                      attempt
//	a <C> <T> <ref 16> <target> 00 <gen 2> <number 4> <batch 8> <n 2>      attempt whose lease was lost
//	u 0 <T> <writer 8> <index 8>           acts of one batch, the first of them with index; T as of heads
//	k <P 4> <key 32>                       key of a synchronous route; P = expiry divided by an eighth of the claim bucket length
//	q <P 4> <key 32> <token 8> <chunk 2>   chunk of an answer over 64 KiB
//	c <ref 16>                             where a carried event and its body stand now
//	n <kind> 00 <name>                     note
//
// # Values
//
//	version 1 | flags 1 | crc32c 4 over key, flags and payload | payload
//
// Flag 1 says the payload is s2-compressed (bodies, acts and answers), flag 2 that
// its texts are packed, as texts.go has it (events and attempts, but for those of
// the first ledgers). Numbers in payloads are varints, strings and byte strings
// carry their length before them. Of the
// records that never change (event, attempt) the payload begins with the
// number of the batch that wrote them; heads hold, per bucket, their count and
// the SHA-256 of their keys and values in key order. Bodies, claims and state
// change or are carried, so heads don't cover them.
package badgerdb
