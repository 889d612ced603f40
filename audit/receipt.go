package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/onceward/onceward/dedupe"
	"github.com/onceward/onceward/event"
)

const receiptFormat = "onceward receipt 1"

// Receipt proves what became of one event to whoever has the gateway's public
// key, for as long as they keep it: each record is in its log, and the log is
// signed. It holds no body and no secret.
type Receipt struct {
	Format      string   `json:"format"`
	Event       Proven   `json:"event"`
	Records     []Proof  `json:"records"`     // the acceptance, then the attempts
	Checkpoints []string `json:"checkpoints"` // signed notes, one for each log that has a record
}

// Proven is what a receipt says in short. All of it follows from the records.
type Proven struct {
	Ref          event.Ref  `json:"ref"`
	Source       string     `json:"source"`
	Provider     string     `json:"provider"`
	EventID      string     `json:"event_id"`
	Type         string     `json:"type,omitempty"`
	BodySHA256   event.Hash `json:"body_sha256"`
	BodyBytes    int64      `json:"body_bytes"`
	ReceivedAt   time.Time  `json:"received_at"`
	Verification string     `json:"verification"` // verified, or unsigned where the source asks for no signature
	Secret       string     `json:"secret,omitempty"`
	Attempts     int        `json:"attempts"`
	// Delivered has the targets with an attempt that landed.
	Delivered []string  `json:"delivered"`
	ProvenAt  time.Time `json:"proven_at"` // of the newest checkpoint
}

// Proof is a record and its path to the root of its log's checkpoint.
type Proof struct {
	Log   string      `json:"log"`
	Index uint64      `json:"index"`
	Leaf  []byte      `json:"leaf"` // the record as it was hashed
	Path  []tlog.Hash `json:"path"`
	Act   Act         `json:"act"` // the record as people read it
}

// Prove makes a receipt of an event: its acceptance and every attempt, each
// with its path to a checkpoint made now. Errors are those of
// dedupe.Account.Get; ErrPruned also when its acts are gone.
func (l *Log) Prove(ctx context.Context, ref event.Ref) (Receipt, error) {
	found, err := l.cfg.Ledger.EventActs(ctx, ref)
	if err != nil {
		return Receipt{}, fmt.Errorf("event %s: %w", ref, err)
	}
	logs, err := l.logs(ctx)
	if err != nil {
		return Receipt{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	r := Receipt{Format: receiptFormat}
	for _, g := range logs {
		if len(found[g.Writer]) == 0 {
			continue
		}
		c, err := l.checkpoint(ctx, g)
		if err != nil {
			return r, err
		}
		r.Checkpoints = append(r.Checkpoints, c.Note)
		for _, a := range found[g.Writer] {
			if a.Index >= c.Size {
				continue // recorded since the logs were listed
			}
			p, err := tlog.ProveRecord(int64(c.Size), int64(a.Index), l.trees[g.Writer].reader(ctx))
			if err != nil {
				return r, fmt.Errorf("prove act %d: %w", a.Index, err)
			}
			r.Records = append(r.Records, proofOf(logName(g.Writer), a, p))
		}
	}
	if err := r.finish(); err != nil {
		if errors.Is(err, errNoAcceptance) {
			err = dedupe.ErrPruned
		}
		return r, fmt.Errorf("receipt of event %s: %w", ref, err)
	}
	return r, nil
}

func proofOf(log string, a dedupe.LoggedAct, path tlog.RecordProof) Proof {
	return Proof{Log: log, Index: a.Index, Leaf: a.Leaf, Path: append([]tlog.Hash{}, path...)}
}

var errNoAcceptance = errors.New("the event's acceptance is not among the records")

// finish fills in what follows from records and checkpoints, after bringing
// the records into the order of their time.
func (r *Receipt) finish() error {
	acts := make(map[*byte]dedupe.Act, len(r.Records)) // by leaf
	for i := range r.Records {
		p := &r.Records[i]
		a, err := dedupe.DecodeAct(p.Leaf)
		if err != nil {
			return fmt.Errorf("record %d of log %s: %w", p.Index, p.Log, err)
		}
		acts[&p.Leaf[0]], p.Act = a, viewAct(&a)
	}
	slices.SortStableFunc(r.Records, func(x, y Proof) int {
		a, b := acts[&x.Leaf[0]], acts[&y.Leaf[0]]
		if first, other := a.Kind == dedupe.ActAccepted, b.Kind == dedupe.ActAccepted; first != other {
			if first {
				return -1
			}
			return 1
		}
		return a.At.Compare(b.At)
	})
	for i := range r.Records {
		a := acts[&r.Records[i].Leaf[0]]
		if err := r.Event.add(i, &a); err != nil {
			return err
		}
	}
	if len(r.Records) == 0 {
		return errNoAcceptance
	}
	slices.Sort(r.Event.Delivered)
	r.Event.Delivered = orEmpty(slices.Compact(r.Event.Delivered))
	for _, n := range r.Checkpoints {
		c, err := peekCheckpoint(n)
		if err != nil {
			return err
		}
		if c.At.After(r.Event.ProvenAt) {
			r.Event.ProvenAt = c.At.UTC()
		}
	}
	return nil
}

// add takes the receipt's record number i into account.
func (v *Proven) add(i int, a *dedupe.Act) error {
	if i > 0 {
		if !a.IsAttempt() || a.Event != v.Ref {
			return fmt.Errorf("record %d is no attempt at event %s", i, v.Ref)
		}
		v.Attempts++
		if a.State == event.Delivered && !a.Late {
			v.Delivered = append(v.Delivered, a.Target)
		}
		return nil
	}
	if a.Kind != dedupe.ActAccepted {
		return errNoAcceptance
	}
	*v = Proven{
		Ref: a.Event, Source: a.Source, Provider: a.Provider, EventID: a.ID, Type: a.Type, BodySHA256: a.Hash, BodyBytes: a.Bytes,
		ReceivedAt: a.Time.UTC(), Verification: "verified", Secret: a.Secret,
	}
	if a.Secret == "" {
		v.Verification = "unsigned"
	}
	return nil
}

// maxReceipt bounds what is read of a receipt.
const maxReceipt = 64 << 20

// VerifyReceipt reads a receipt and checks all of it with keys alone: the
// signatures of its checkpoints, the path of every record, and that all it
// says follows from the records. An error says what does not hold.
func VerifyReceipt(r io.Reader, keys Keys) (Receipt, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxReceipt))
	if err != nil {
		return Receipt{}, fmt.Errorf("read receipt: %w", err)
	}
	var got Receipt
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&got); err != nil || got.Format != receiptFormat {
		return Receipt{}, errors.New("this is no receipt of an event")
	}
	if dec.More() {
		return Receipt{}, errors.New("something follows the receipt")
	}
	signed := map[string]Checkpoint{}
	for i, n := range got.Checkpoints {
		c, err := keys.Open(n)
		if err != nil {
			return Receipt{}, fmt.Errorf("checkpoint %d: %w", i+1, err)
		}
		if _, twice := signed[c.Log]; twice {
			return Receipt{}, fmt.Errorf("checkpoint %d: a second one of log %s", i+1, c.Log)
		}
		signed[c.Log] = c
	}
	made := Receipt{Format: receiptFormat, Checkpoints: got.Checkpoints}
	for _, p := range got.Records {
		if err := p.check(signed); err != nil {
			return Receipt{}, err
		}
		p.Act = Act{}
		made.Records = append(made.Records, p)
	}
	if err := made.finish(); err != nil {
		return Receipt{}, err
	}
	return made, sameReceipt(text, &made)
}

// check follows a record's path to the checkpoint of its log.
func (p *Proof) check(signed map[string]Checkpoint) error {
	c, ok := signed[p.Log]
	if !ok {
		return fmt.Errorf("record %d: there is no checkpoint of its log %q", p.Index, p.Log)
	}
	if p.Index >= c.Size {
		return fmt.Errorf("record %d of log %s: the checkpoint ends before it", p.Index, p.Log)
	}
	if len(p.Leaf) == 0 || tlog.CheckRecord(p.Path, int64(c.Size), c.Root, int64(p.Index), tlog.RecordHash(p.Leaf)) != nil {
		return fmt.Errorf("record %d of log %s: is not what was signed", p.Index, p.Log)
	}
	return nil
}

// sameReceipt checks that a receipt reads as it was made: every word that is
// not hashed follows from one that is.
func sameReceipt(text []byte, made *Receipt) error {
	b, err := json.Marshal(made)
	if err != nil {
		return fmt.Errorf("encode receipt: %w", err)
	}
	want, err1 := readStrict(b)
	got, err2 := readStrict(text)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("this is no receipt of an event: %w", err)
	}
	if where := differs("", got, want); where != "" {
		return fmt.Errorf("%s does not say what the records say", where)
	}
	return nil
}

// differs names the first place where two JSON values are not the same.
func differs(at string, got, want any) string {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return "receipt" + at
		}
		for k, v := range w {
			if d := differs(at+"."+k, g[k], v); d != "" {
				return d
			}
		}
		return ""
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return "receipt" + at
		}
		for i, v := range w {
			if d := differs(fmt.Sprintf("%s[%d]", at, i), g[i], v); d != "" {
				return d
			}
		}
		return ""
	}
	if got != want {
		return "receipt" + at
	}
	return ""
}

// readStrict decodes JSON with its numbers as written. A name that stands twice
// in an object is an error: readers differ in which of them they take.
func readStrict(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	return readValue(dec)
}

func readValue(dec *json.Decoder) (any, error) {
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t {
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := readValue(dec)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	case json.Delim('{'):
		return readObject(dec)
	}
	return t, nil
}

func readObject(dec *json.Decoder) (any, error) {
	out := map[string]any{}
	for dec.More() {
		k, err := dec.Token()
		if err != nil {
			return nil, err
		}
		name, _ := k.(string) // keys of objects always are
		if _, twice := out[name]; twice {
			return nil, fmt.Errorf("%q stands twice", name)
		}
		if out[name], err = readValue(dec); err != nil {
			return nil, err
		}
	}
	_, err := dec.Token()
	return out, err
}
