package forward

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// share bounds the bytes of the bodies that one target's attempts hold at
// once. Who asked first has its turn first.
type share struct {
	limit int64
	sem   *semaphore.Weighted
}

func newShare(limit int64) *share {
	return &share{limit: limit, sem: semaphore.NewWeighted(limit)}
}

// room is what one attempt holds of a share.
type room struct {
	share *share
	bytes int64
}

// take waits for room for a body of size bytes, at most until ctx ends, then
// it is false. A body larger than the share takes all of it.
func (s *share) take(ctx context.Context, size int64) (room, bool) {
	r := room{share: s, bytes: min(size, s.limit)}
	if r.bytes > 0 && s.sem.Acquire(ctx, r.bytes) != nil {
		return room{}, false
	}
	return r, true
}

// grow corrects the room of a body whose size was not known: it takes what is
// there now, without waiting.
func (r *room) grow(size int) {
	if more := min(int64(size), r.share.limit) - r.bytes; more > 0 && r.share.sem.TryAcquire(more) {
		r.bytes += more
	}
}

func (r *room) free() {
	if r.bytes > 0 {
		r.share.sem.Release(r.bytes)
	}
}
