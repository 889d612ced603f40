package verify

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"strings"
	"sync"
	"time"
)

// Bounds of the cache of fetched keys.
const (
	keyLife    = 24 * time.Hour // how long keys are used without asking again
	keyRefresh = time.Minute    // how often one address is asked at most, success or not
	maxKeyURLs = 16             // how many addresses are kept
	// maxNewURLs bounds the addresses asked in one keyRefresh, where requests name
	// them.
	maxNewURLs = 8
)

var (
	errNoFetcher = errors.New("keys are fetched and there is nothing to fetch them with")
	errTooSoon   = errors.New("the keys were asked for a moment ago")
)

// keyLookup finds the public keys of a request.
type keyLookup struct {
	src   KeySource
	rule  urlRule
	in    source
	kid   source
	fixed string
	fetch Fetcher
	roots *x509.CertPool

	// mu guards what follows and is never held during a fetch.
	mu      sync.Mutex
	entries map[string]*keyEntry
	began   time.Time // of the minute in which new addresses are counted
	asked   int
}

// keyEntry is what one address gave.
type keyEntry struct {
	keys    []pubKey
	got     time.Time     // when keys were got
	tried   time.Time     // when they were last asked for
	err     error         // of the last try
	waiting chan struct{} // closed when the fetch under way is done; nil for none
}

// address returns where the keys of the request are; ok is false where the request
// names a place that is not believed.
func (k *keyLookup) address(x *exchange) (url string, p presence, ok bool) {
	if k.fixed != "" {
		return k.fixed, once, true
	}
	s, _, p := k.in.find(x)
	if p != once || s == "" {
		return "", p, false
	}
	url, ok = k.rule.check(k.src.Base + s)
	return url, p, ok
}

// keys returns the keys at an address, those with the ID where one is named. It
// asks for them at most once a minute, keeps what it has while asking fails, and
// remembers failures as well.
func (k *keyLookup) keys(ctx context.Context, url, kid string, now time.Time) ([]pubKey, error) {
	for {
		e, mine, err := k.entry(url, kid, now)
		switch {
		case err != nil:
			return nil, err
		case mine:
			k.refresh(ctx, e, url, now)
		case e.waiting != nil:
			select {
			case <-e.waiting:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		default:
			return withID(e.keys, kid), cmpErr(e)
		}
	}
}

// cmpErr returns why an entry without keys has none.
func cmpErr(e *keyEntry) error {
	if len(e.keys) > 0 {
		return nil
	}
	return e.err
}

// entry returns a copy of what is known of an address. With mine, the caller has
// to refresh it.
func (k *keyLookup) entry(url, kid string, now time.Time) (e *keyEntry, mine bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	got, ok := k.entries[url]
	switch {
	case ok && got.waiting != nil:
		return &keyEntry{waiting: got.waiting}, false, nil
	case ok && !got.due(kid, now):
		c := *got
		return &c, false, nil
	case k.fetch == nil:
		return nil, false, errNoFetcher
	}
	if !ok {
		if !k.admit(now) {
			return nil, false, errTooSoon
		}
		got = &keyEntry{}
		k.entries[url] = got
	}
	got.waiting, got.tried = make(chan struct{}), now
	return got, true, nil
}

// due reports whether the address should be asked again: the keys are old, or the
// one wanted is not among them, and the last try is long enough ago.
func (e *keyEntry) due(kid string, now time.Time) bool {
	old := now.Sub(e.got) > keyLife || now.Before(e.got.Add(-keyLife))
	lacks := kid != "" && len(withID(e.keys, kid)) == 0
	since := now.Sub(e.tried)
	return (old || lacks || len(e.keys) == 0) && (since >= keyRefresh || since <= -keyRefresh)
}

// admit counts a new address and makes room for it.
func (k *keyLookup) admit(now time.Time) bool {
	if since := now.Sub(k.began); since >= keyRefresh || since < 0 {
		k.began, k.asked = now, 0
	}
	if k.asked >= maxNewURLs {
		return false
	}
	k.asked++
	if k.entries == nil {
		k.entries = map[string]*keyEntry{}
	}
	for len(k.entries) >= maxKeyURLs {
		if !k.evict() {
			return false
		}
	}
	return true
}

// evict drops the entry that is worth least: one without keys, else the oldest.
func (k *keyLookup) evict() bool {
	worst := ""
	for url, e := range k.entries {
		if e.waiting != nil {
			continue
		}
		w := k.entries[worst]
		if w == nil || (len(e.keys) == 0) != (len(w.keys) == 0) && len(e.keys) == 0 ||
			(len(e.keys) == 0) == (len(w.keys) == 0) && cmp.Or(e.tried.Compare(w.tried), strings.Compare(url, worst)) < 0 {
			worst = url
		}
	}
	if worst == "" {
		return false
	}
	delete(k.entries, worst)
	return true
}

// refresh asks for the keys and wakes whoever waits. What was there stays where
// asking fails.
func (k *keyLookup) refresh(ctx context.Context, e *keyEntry, url string, now time.Time) {
	var keys []pubKey
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), FetchTimeout)
	defer cancel()
	b, err := k.fetch.Fetch(ctx, url)
	if err == nil && len(b) > MaxFetch {
		err = errors.New("the document with the keys is too large")
	}
	if err == nil {
		keys, err = k.parse(b, now)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if e.err = err; err == nil {
		e.keys, e.got = keys, now
	}
	close(e.waiting)
	e.waiting = nil
}

// parse reads a document with keys.
func (k *keyLookup) parse(b []byte, now time.Time) ([]pubKey, error) {
	switch k.src.Kind {
	case "jwks":
		return parseJWKS(b)
	case "x509":
		pk, err := k.parseCertificate(b, now)
		return []pubKey{pk}, err
	default:
		pk, err := parseAnyKey(string(b))
		return []pubKey{pk}, err
	}
}

// withID returns the keys that may be meant by an ID.
func withID(keys []pubKey, kid string) []pubKey {
	if kid == "" {
		return keys
	}
	var out []pubKey
	for _, pk := range keys {
		if pk.kid == kid || pk.kid == "" {
			out = append(out, pk)
		}
	}
	return out
}
