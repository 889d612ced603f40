package receiver

import (
	"crypto/sha256"
	"errors"
	"hash"
	"io"

	"github.com/onceward/onceward/dedupe"
)

func newHash() hash.Hash { return sha256.New() }

// spool takes in the body of an answer. Up to MaxResponse it is in buf; of a
// larger one the chunks go to the ledger as they come, so that memory never
// holds more than MaxResponse and one chunk.
type spool struct {
	job    *job
	hash   hash.Hash
	buf    []byte
	length int64
	chunks int // written
}

var errClaimLost = errors.New("claim was lost while the answer arrived")

// copy reads body to its end. errBodyTooLarge when it is over MaxSpool.
func (s *spool) copy(body io.Reader) error {
	cfg := s.job.src.sync
	part := make([]byte, 32<<10)
	for {
		n, err := body.Read(part)
		s.hash.Write(part[:n])
		s.buf = append(s.buf, part[:n]...)
		if s.length += int64(n); s.length > cfg.MaxSpool {
			return errBodyTooLarge
		}
		if s.chunks > 0 || s.length > max(cfg.MaxResponse, dedupe.MaxInline) {
			if err := s.flush(dedupe.SyncChunk); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if s.chunks > 0 || s.length > max(cfg.MaxResponse, dedupe.MaxInline) {
		return s.flush(1)
	}
	return nil
}

// flush writes whole chunks while at least least bytes are there.
func (s *spool) flush(least int) error {
	for len(s.buf) >= least {
		n := min(len(s.buf), dedupe.SyncChunk)
		step := s.job.step(dedupe.StepSpool)
		step.Chunk, step.Data = s.chunks, s.buf[:n:n]
		if err := s.job.r.cfg.Keys.Step(s.job.r.flights.storing, step); err != nil {
			return err
		}
		if step.Verdict != dedupe.KeyDone {
			return errClaimLost
		}
		s.chunks++
		s.buf = append(s.buf[:0:0], s.buf[n:]...)
	}
	return nil
}
