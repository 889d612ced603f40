package badgerdb

import "github.com/onceward/onceward/dedupe"

// What the parts of a new event take at most, beside their texts.
const (
	eventSize = 320 + 160 + 192 // its record, the entry by which its ID finds it, its act
	claimSize = 256
)

// estimate is what writing the request takes, with margin.
func (c *commit) estimate(req *dedupe.Request, ds []dedupe.Decision) int64 {
	n := int64(0)
	if int64(len(req.Body)) <= c.db.ahead {
		n += int64(len(req.Body)) + 1024
	}
	for i := range ds {
		ev := &ds[i].Event
		n += eventSize + claimSize*int64(len(ds[i].Claims)) + int64(3*(len(ev.ID)+len(ev.Source))+2*(len(ev.Provider)+len(ev.Type)+len(ev.Secret))+
			len(ev.Caller)+len(ev.Key)+len(ev.Method)+len(ev.Path)+len(ev.Query)+len(ev.Trace)+len(ev.Answer.Body)+len(ev.Answer.ContentType))
		for _, h := range ev.Header {
			n += int64(len(h.Name) + len(h.Value) + 4)
		}
		for _, t := range ev.Targets {
			n += int64(len(t) + 2 + 8) // its name and its place in an order
		}
		for _, f := range ev.Index {
			n += 2*int64(len(f.Name)+len(f.Value)) + 64 + entrySize
		}
	}
	return n
}
