package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Account reads the gateway's own account of all events.
func (p *Proc) Account(ctx context.Context) ([]Stored, error) {
	out, err := p.Ask(ctx, "events", "list", "--all", "-o", "jsonl")
	if err != nil {
		return nil, err
	}
	return parseAccount(out)
}

// parseAccount reads one JSON object a line, as `events list -o jsonl`
// prints them.
func parseAccount(out []byte) ([]Stored, error) {
	var all []Stored
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 4<<20)
	for sc.Scan() {
		var line struct {
			Ref        string   `json:"ref"`
			Source     string   `json:"source"`
			ID         string   `json:"event_id"`
			Key        string   `json:"key"`
			Hash       string   `json:"body_sha256"`
			Secret     string   `json:"secret"`
			Flags      []string `json:"flags"`
			Deliveries []struct {
				Target   string `json:"target"`
				State    string `json:"state"`
				Attempts int    `json:"attempts"`
			} `json:"deliveries"`
		}
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("read account line %d: %w", len(all)+1, err)
		}
		if line.Ref == "" || line.ID == "" && !slices.Contains(line.Flags, "no_id") || line.Hash == "" {
			return nil, fmt.Errorf("read account line %d: no ref, event_id or body_sha256 in %s", len(all)+1, sc.Bytes())
		}
		s := Stored{Ref: line.Ref, Source: line.Source, ID: line.ID, Key: line.Key, Hash: line.Hash, Secret: line.Secret}
		for _, d := range line.Deliveries {
			s.Deliveries = append(s.Deliveries, StoredDelivery(d))
		}
		all = append(all, s)
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read account: %w", err)
	}
	return all, nil
}

// Pending is the number of deliveries that are not finished yet, and at
// least 1 while the gateway is still reading back what there is to do.
func (p *Proc) Pending(ctx context.Context) (int, error) {
	out, err := p.Ask(ctx, "status", "-o", "json")
	if err != nil {
		return 0, err
	}
	return parsePending(out)
}

// Replaying is how many replays run in the gateway, which go on after a kill.
func (p *Proc) Replaying(ctx context.Context) (int, error) {
	out, err := p.Ask(ctx, "replay", "status", "-o", "jsonl")
	if err != nil {
		return 0, err
	}
	return parseReplaying(out)
}

// parseReplaying reads the lines that `replay status -o jsonl` prints.
func parseReplaying(out []byte) (n int, err error) {
	for line := range bytes.Lines(out) {
		var job struct{ State string }
		err := json.Unmarshal(line, &job)
		if err == nil && job.State == "" {
			err = errors.New("no state")
		}
		if err != nil {
			return 0, fmt.Errorf("read replays: %q: %w", line, err)
		}
		if job.State == "counting" || job.State == "running" {
			n++
		}
	}
	return n, nil
}

// parsePending reads the document that `status -o json` prints.
func parsePending(out []byte) (int, error) {
	var status struct {
		Targets []struct {
			Pending *int `json:"pending"`
			Leased  *int `json:"leased"`
		} `json:"targets"`
		Ledger struct {
			Rebuilding *bool `json:"rebuilding"`
		} `json:"ledger"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return 0, fmt.Errorf("read status: %w", err)
	}
	if len(status.Targets) == 0 || status.Ledger.Rebuilding == nil {
		return 0, fmt.Errorf("read status: no targets or no ledger.rebuilding in %s", out)
	}
	n := 0
	if *status.Ledger.Rebuilding {
		n = 1
	}
	for _, t := range status.Targets {
		if t.Pending == nil || t.Leased == nil {
			return 0, fmt.Errorf("read status: a target without pending or leased in %s", out)
		}
		n += *t.Pending + *t.Leased
	}
	return n, nil
}

// Accepted counts, by ref, the acceptances that the gateway's audit log holds.
// Those of the named sources are left out.
func (p *Proc) Accepted(ctx context.Context, without ...string) (map[string]int, error) {
	out, err := p.Ask(ctx, "audit", "list", "--kind", "accepted", "--all", "-o", "jsonl")
	if err != nil {
		return nil, err
	}
	return parseAccepted(out, without...)
}

// parseAccepted reads one JSON object a line, as `audit list -o jsonl` prints
// them.
func parseAccepted(out []byte, without ...string) (map[string]int, error) {
	refs := map[string]int{}
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 4<<20)
	for sc.Scan() {
		var line struct {
			Kind   string `json:"kind"`
			Ref    string `json:"ref"`
			Source string `json:"source"`
		}
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("read audit log line %d: %w", len(refs)+1, err)
		}
		if line.Kind != "accepted" || line.Ref == "" {
			return nil, fmt.Errorf("read audit log: no acceptance in %s", sc.Bytes())
		}
		if slices.Contains(without, line.Source) {
			continue
		}
		refs[line.Ref]++
	}
	if err := sc.Err(); err != nil {
		return nil, fmt.Errorf("read audit log: %w", err)
	}
	return refs, nil
}

// Unaccounted says what events and acceptances don't fit each other: each event
// has one acceptance, and none is left over.
func Unaccounted(events []Stored, accepted map[string]int) (faults []string) {
	left := maps.Clone(accepted)
	for _, e := range events {
		if n := left[e.Ref]; n != 1 {
			faults = append(faults, fmt.Sprintf("event %s has %d acceptances in the audit log", e.Ref, n))
		}
		delete(left, e.Ref)
	}
	for ref, n := range left {
		faults = append(faults, fmt.Sprintf("%d acceptances of %s in the audit log, and no such event", n, ref))
	}
	slices.Sort(faults)
	return faults
}
