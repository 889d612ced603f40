package audit

import (
	"context"
	"errors"
	"fmt"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/onceward/onceward/dedupe"
)

// The tree keeps one hash for each block of acts, and those above it. What is
// below a block is made again from its acts when a proof needs it.
const (
	blockLevel = 8
	blockSize  = 1 << blockLevel
	// readActs is how many acts are read at once.
	readActs = 4096
)

// tree is the Merkle tree of RFC 6962 over one writer's acts, as far as they
// were read.
type tree struct {
	acts   dedupe.Acts
	writer uint64
	size   uint64        // acts in it
	levels [][]tlog.Hash // levels[i][n] is subtree n of level blockLevel+i
	tail   []tlog.Hash   // leaf hashes of the last, incomplete block
	edges  []edge        // where acts were or may be cut off, ascending

	// The block whose leaves were read last.
	block  uint64
	leaves []tlog.Hash
}

// edge is what is kept of a place before which acts may be gone: what the tree
// needs to go on, and the signed root of what was before.
type edge struct {
	At         uint64      `json:"at"`
	Leaves     []tlog.Hash `json:"leaves"` // hashes of the acts of its block before it
	Checkpoint string      `json:"checkpoint"`
}

// push adds a leaf's hash.
func (t *tree) push(h tlog.Hash) {
	t.tail = append(t.tail, h)
	t.size++
	if len(t.tail) < blockSize {
		return
	}
	t.pushBlock(root(t.tail))
	t.tail = t.tail[:0]
}

// pushBlock adds a block's hash and those above that it completes.
func (t *tree) pushBlock(h tlog.Hash) {
	for i := 0; ; i++ {
		if i == len(t.levels) {
			t.levels = append(t.levels, nil)
		}
		t.levels[i] = append(t.levels[i], h)
		n := len(t.levels[i])
		if n%2 == 1 {
			return
		}
		h = tlog.NodeHash(t.levels[i][n-2], h)
	}
}

// root is the hash of a complete subtree over its leaves, a power of two.
func root(leaves []tlog.Hash) tlog.Hash {
	h := append([]tlog.Hash(nil), leaves...)
	for ; len(h) > 1; h = h[:len(h)/2] {
		for i := range len(h) / 2 {
			h[i] = tlog.NodeHash(h[2*i], h[2*i+1])
		}
	}
	return h[0]
}

// grow reads the acts up to next.
func (t *tree) grow(ctx context.Context, next uint64) error {
	for t.size < next {
		acts, err := t.acts.Acts(ctx, t.writer, t.size, readActs)
		if err != nil {
			return fmt.Errorf("audit log %s: %w", logName(t.writer), err)
		}
		if len(acts) == 0 {
			return fmt.Errorf("audit log %s: %w: acts %d to %d are missing", logName(t.writer), dedupe.ErrDamaged, t.size, next-1)
		}
		for _, a := range acts {
			if a.Index != t.size {
				return fmt.Errorf("audit log %s: %w: act %d is missing", logName(t.writer), dedupe.ErrDamaged, t.size)
			}
			t.push(tlog.RecordHash(a.Leaf))
		}
	}
	return nil
}

// blocks are the hashes of complete blocks.
func (t *tree) blocks() []tlog.Hash {
	if len(t.levels) == 0 {
		return nil
	}
	return t.levels[0]
}

// reader gives the tree's hashes to the functions of tlog.
func (t *tree) reader(ctx context.Context) tlog.HashReader {
	return tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, x := range indexes {
			level, n := tlog.SplitStoredHashIndex(x)
			var err error
			if out[i], err = t.hash(ctx, level, uint64(n)); err != nil {
				return nil, err
			}
		}
		return out, nil
	})
}

// hash is the hash of a complete subtree.
func (t *tree) hash(ctx context.Context, level int, n uint64) (tlog.Hash, error) {
	if level >= blockLevel {
		if i := level - blockLevel; i < len(t.levels) && n < uint64(len(t.levels[i])) {
			return t.levels[i][n], nil
		}
		return tlog.Hash{}, fmt.Errorf("audit log %s has no subtree %d of level %d", logName(t.writer), n, level)
	}
	first := n << level
	leaves, err := t.leavesOf(ctx, first/blockSize)
	if err != nil {
		return tlog.Hash{}, err
	}
	at := first % blockSize
	if at+1<<level > uint64(len(leaves)) {
		return tlog.Hash{}, fmt.Errorf("audit log %s has no act %d", logName(t.writer), first)
	}
	return root(leaves[at : at+1<<level]), nil
}

// leavesOf are the leaf hashes of a block, made of its acts.
func (t *tree) leavesOf(ctx context.Context, block uint64) ([]tlog.Hash, error) {
	if block == uint64(len(t.blocks())) {
		return t.tail, nil
	}
	if t.leaves != nil && t.block == block {
		return t.leaves, nil
	}
	leaves := make([]tlog.Hash, 0, blockSize)
	for i := len(t.edges) - 1; i >= 0 && len(leaves) == 0; i-- {
		if t.edges[i].At/blockSize == block {
			leaves = append(leaves, t.edges[i].Leaves...)
		}
	}
	for len(leaves) < blockSize {
		acts, err := t.acts.Acts(ctx, t.writer, block*blockSize+uint64(len(leaves)), blockSize-len(leaves))
		if err != nil {
			return nil, fmt.Errorf("audit log %s: %w", logName(t.writer), err)
		}
		if len(acts) == 0 {
			return nil, fmt.Errorf("audit log %s: %w: block %d ends early", logName(t.writer), dedupe.ErrDamaged, block)
		}
		for _, a := range acts[:min(len(acts), blockSize-len(leaves))] {
			leaves = append(leaves, tlog.RecordHash(a.Leaf))
		}
	}
	if root(leaves) != t.blocks()[block] {
		return nil, fmt.Errorf("audit log %s: %w: acts %d to %d are not those that were recorded", logName(t.writer), dedupe.ErrDamaged,
			block*blockSize, block*blockSize+blockSize-1)
	}
	t.block, t.leaves = block, leaves
	return leaves, nil
}

// root is the hash of the first n acts.
func (t *tree) root(ctx context.Context, n uint64) (tlog.Hash, error) {
	return tlog.TreeHash(int64(n), t.reader(ctx))
}

// frontier is the hashes of the complete subtrees that make up the first n
// acts, the largest first.
func (t *tree) frontier(ctx context.Context, n uint64) ([]tlog.Hash, error) {
	var out []tlog.Hash
	for at := uint64(0); at < n; {
		level := bits.Len64(n-at) - 1
		h, err := t.hash(ctx, level, at>>level)
		if err != nil {
			return nil, err
		}
		out = append(out, h)
		at += 1 << level
	}
	return out, nil
}

// edgeAt is the edge at an index; the begin of the log has one by itself.
func (t *tree) edgeAt(at uint64) (edge, bool) {
	for _, e := range t.edges {
		if e.At == at {
			return e, true
		}
	}
	return edge{}, at == 0
}

// compact is a tree of which only the frontier is kept: enough to add leaves
// and to say the root.
type compact struct {
	size   uint64
	hashes []tlog.Hash // of complete subtrees, the largest first
}

var errFrontier = errors.New("has not as many hashes as its size asks for")

// newCompact is a tree of n leaves with that frontier.
func newCompact(n uint64, frontier []tlog.Hash) (*compact, error) {
	if len(frontier) != bits.OnesCount64(n) {
		return nil, errFrontier
	}
	return &compact{n, append([]tlog.Hash(nil), frontier...)}, nil
}

func (c *compact) push(h tlog.Hash) {
	for n := c.size; n%2 == 1; n /= 2 {
		h = tlog.NodeHash(c.hashes[len(c.hashes)-1], h)
		c.hashes = c.hashes[:len(c.hashes)-1]
	}
	c.hashes = append(c.hashes, h)
	c.size++
}

// root is the hash of all leaves. An empty tree has the zero hash.
func (c *compact) root() tlog.Hash {
	if len(c.hashes) == 0 {
		return tlog.Hash{}
	}
	h := c.hashes[len(c.hashes)-1]
	for i := len(c.hashes) - 2; i >= 0; i-- {
		h = tlog.NodeHash(c.hashes[i], h)
	}
	return h
}
