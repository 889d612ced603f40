package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
)

// Account reads the gateway's own account of all events.
func (p *Proc) Account(ctx context.Context) ([]Stored, error) {
	out, err := p.Command(ctx, "events", "list", "--all", "-o", "jsonl")
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
			Ref        string `json:"ref"`
			Source     string `json:"source"`
			ID         string `json:"event_id"`
			Key        string `json:"key"`
			Hash       string `json:"body_sha256"`
			Deliveries []struct {
				Target   string `json:"target"`
				State    string `json:"state"`
				Attempts int    `json:"attempts"`
			} `json:"deliveries"`
		}
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("read account line %d: %w", len(all)+1, err)
		}
		if line.Ref == "" || line.ID == "" || line.Hash == "" {
			return nil, fmt.Errorf("read account line %d: no ref, event_id or body_sha256 in %s", len(all)+1, sc.Bytes())
		}
		s := Stored{Ref: line.Ref, Source: line.Source, ID: line.ID, Key: line.Key, Hash: line.Hash}
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

// Pending is the number of deliveries that are not finished yet.
func (p *Proc) Pending(ctx context.Context) (int, error) {
	out, err := p.Command(ctx, "status", "-o", "json")
	if err != nil {
		return 0, err
	}
	return parsePending(out)
}
func parsePending(out []byte) (int, error) { return 0, nil }
