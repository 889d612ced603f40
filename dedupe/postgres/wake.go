package postgres

import "sync"

// wakes are the channels that hint at due deliveries, by target.
type wakes struct {
	mu sync.Mutex
	ch map[string]chan struct{}
}

func (w *wakes) of(target string) chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ch == nil {
		w.ch = map[string]chan struct{}{}
	}
	c := w.ch[target]
	if c == nil {
		c = make(chan struct{}, 1)
		w.ch[target] = c
	}
	return c
}

func (w *wakes) signal(target string) {
	select {
	case w.of(target) <- struct{}{}:
	default: // one is waiting already
	}
}

// Wake hints at due deliveries of a target: of this gateway's at once, of
// others' within a quarter of a second while Run goes on.
func (db *DB) Wake(target string) <-chan struct{} { return db.wakes.of(target) }
