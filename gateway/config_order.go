package gateway

import (
	"strconv"

	"github.com/onceward/onceward/receiver"
)

// What a dead delivery does to those behind it, as the file has it.
const (
	afterDeadBlock = "block"
	afterDeadSkip  = "skip"
)

// targetOrder checks what a target's events are ordered by.
func (c *checker) targetOrder(t *TargetConfig, n *node) {
	at := n.get("ordered_by")
	if _, err := receiver.ParseField(t.OrderedBy); at != nil && !at.bad && len(at.unset) == 0 && err != nil {
		c.rep.at(at, err.Error(), `want source, type, id, caller, header:NAME, query:NAME, or a path in the JSON body such as "data.object.id"`)
	}
	after := n.get("after_dead")
	switch {
	case after == nil || after.bad:
	case t.AfterDead != afterDeadBlock && t.AfterDead != afterDeadSkip:
		c.rep.at(after, "after_dead = "+strconv.Quote(t.AfterDead)+" is not known",
			meant(t.AfterDead, []string{afterDeadBlock, afterDeadSkip}, `want "block" or "skip"`))
	case at == nil:
		c.rep.at(after, "after_dead means nothing without ordered_by", "add ordered_by, or remove it")
	}
}

// orders are those of all targets, as the receiver takes them.
func (c *Config) orders() (map[string]receiver.Order, error) {
	var out map[string]receiver.Order
	for i := range c.Targets {
		t := &c.Targets[i]
		if t.OrderedBy == "" {
			continue
		}
		f, err := receiver.ParseField(t.OrderedBy)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = map[string]receiver.Order{}
		}
		out[t.Name] = receiver.Order{By: f, Skip: t.AfterDead == afterDeadSkip}
	}
	return out, nil
}
