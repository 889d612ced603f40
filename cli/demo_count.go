package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// senderCount is what the sender was told, by its own account.
type senderCount struct {
	sent, accepted, repeats, conflicts, refused, errors int
}

func (c *senderCount) add(s sent) {
	c.sent++
	switch s.got {
	case fateAccepted:
		c.accepted++
	case fateRepeat:
		c.repeats++
	case fateConflict:
		c.conflicts++
	case fateRefused:
		c.refused++
	default:
		c.errors++
	}
}

// gatewayCount is what the gateway has on record.
type gatewayCount struct {
	accepted, repeats, conflicts, refused     int
	deliveries, delivered, attempts, failures int
}

// addend is one number of a sum, with its name.
type addend struct {
	name string
	n    int
}

// check is an equation over the counts of independent sides.
type check struct {
	left  addend
	right []addend
}

func (c check) ok() bool {
	sum := 0
	for _, t := range c.right {
		sum += t.n
	}
	return c.left.n == sum
}

// String writes the equation in words and in numbers.
func (c check) String() string {
	names, numbers := make([]string, len(c.right)), make([]string, len(c.right))
	for i, t := range c.right {
		names[i], numbers[i] = t.name, strconv.Itoa(t.n)
	}
	sign := "="
	if !c.ok() {
		sign = "≠"
	}
	return fmt.Sprintf("%s = %s: %d %s %s", c.left.name, strings.Join(names, " + "), c.left.n, sign, strings.Join(numbers, " + "))
}

// demoChecks are the sums that must hold when everything has been delivered.
func demoChecks(s senderCount, g gatewayCount, t targetCount) []check {
	one := func(left string, l int, right string, r int) check {
		return check{addend{left, l}, []addend{{right, r}}}
	}
	return []check{
		{addend{"requests sent", s.sent}, []addend{{"accepted", s.accepted}, {"repeats", s.repeats}, {"conflicts", s.conflicts}, {"refused", s.refused}}},
		one("accepted by the sender's count", s.accepted, "events in the ledger", g.accepted),
		one("repeats answered", s.repeats, "repeats on record", g.repeats),
		one("conflicts answered", s.conflicts, "conflicts on record", g.conflicts),
		one("refusals answered", s.refused, "refusals on record", g.refused),
		one("deliveries", g.deliveries, "delivered", g.delivered),
		{addend{"attempts", g.attempts}, []addend{{"delivered", g.delivered}, {"retried", g.failures}}},
		one("attempts on record", g.attempts, "requests the target saw", t.requests),
		one("events accepted", s.accepted, "effects at the target", t.effects),
	}
}

// demoRows are the same counts side by side.
func demoRows(s senderCount, g gatewayCount, t targetCount) []row {
	n := strconv.Itoa
	return []row{
		{"sent", n(s.sent), "", "", "signed requests, as four providers send them"},
		{"accepted", n(s.accepted), n(g.accepted), "", "on disk before the answer went out"},
		{"repeats", n(s.repeats), n(g.repeats), "", "recognised by event ID, answered the same"},
		{"conflicts", n(s.conflicts), n(g.conflicts), "", "known ID with another body"},
		{"refused", n(s.refused), n(g.refused), "", "forged; nothing reaches the ledger"},
		{"deliveries", "", n(g.deliveries), "", "one for each accepted event"},
		{"delivered", "", n(g.delivered), "", "answered 2xx in the end"},
		{"attempts", "", n(g.attempts), n(t.requests), "HTTP requests to the target"},
		{"retried", "", n(g.failures), "", "503, time-out, broken connection"},
		{"effects", "", "", n(t.effects), fmt.Sprintf("work done once per key; %d came again and did nothing", t.again)},
	}
}

// close takes the account, prints the table and checks its sums.
func (d *demo) close(ctx context.Context, told senderCount) error {
	ledger, target, err := d.settle(ctx, told)
	if err != nil {
		return err
	}
	d.view.table(demoRows(told, ledger, target))
	d.view.say("")
	wrong := 0
	for _, c := range demoChecks(told, ledger, target) {
		d.view.check(c)
		if !c.ok() {
			wrong++
		}
	}
	if wrong > 0 {
		return fail(exitFailed, "the three counts disagree in %s", plural(wrong, "place"))
	}
	d.view.say("\n  %s", d.view.p.bold(d.view.p.green("Nothing lost, nothing done twice.")))
	return nil
}

// settle takes the counts until they agree, or for demoSettle: a request that
// the target has just answered may still be on its way into the ledger.
func (d *demo) settle(ctx context.Context, told senderCount) (gatewayCount, targetCount, error) {
	deadline := d.now().Add(demoSettle)
	for {
		ledger, err := countLedger(ctx, d.client)
		if err != nil {
			return gatewayCount{}, targetCount{}, err
		}
		target := d.target.count()
		agree := true
		for _, c := range demoChecks(told, ledger, target) {
			agree = agree && c.ok()
		}
		if agree || d.now().After(deadline) {
			return ledger, target, nil
		}
		if err := pauseFor(ctx, demoPoll); err != nil {
			return gatewayCount{}, targetCount{}, err
		}
	}
}
