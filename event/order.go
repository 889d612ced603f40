package event

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// Order says by what an event is ordered at one target: deliveries with the
// same Lane are attempted one after the other, in the order in which they were
// opened. The zero Order is none. It is made at admission and never changes.
type Order uint64

// skips is the bit of an Order that says that a dead delivery is passed over.
const skips = 1

// OrderOf is the order of events that have key in common; skip says that the
// deliveries behind one of them that is dead go on. Of two keys one in 2^63
// pairs has the same Order: their deliveries then wait for each other.
func OrderOf(key string, skip bool) Order {
	sum := HashOf([]byte(key))
	o := Order(binary.BigEndian.Uint64(sum[:8])) &^ skips
	if o == 0 {
		o = 2 // a key is not none
	}
	if skip {
		o |= skips
	}
	return o
}

// Lane names the deliveries that wait for each other; 0 is none.
func (o Order) Lane() uint64 { return uint64(o >> 1) }

// Blocks reports whether a dead delivery keeps those behind it waiting.
func (o Order) Blocks() bool { return o != 0 && o&skips == 0 }

// String is the lane as sixteen hexadecimal digits, "" for none.
func (o Order) String() string {
	if o == 0 {
		return ""
	}
	return fmt.Sprintf("%016x", o.Lane())
}

// MarshalText writes the lane, and "-skip" behind it where a dead delivery is
// passed over.
func (o Order) MarshalText() ([]byte, error) {
	text := o.String()
	if o&skips != 0 {
		text += "-skip"
	}
	return []byte(text), nil
}

// UnmarshalText reads what MarshalText writes.
func (o *Order) UnmarshalText(b []byte) error {
	text, skip := string(b), false
	if n := len(text) - len("-skip"); n >= 0 && text[n:] == "-skip" {
		text, skip = text[:n], true
	}
	if text == "" && !skip {
		*o = 0
		return nil
	}
	v, err := strconv.ParseUint(text, 16, 64)
	if err != nil || v == 0 || v>>63 != 0 {
		return fmt.Errorf("order %q: want sixteen hexadecimal digits", b)
	}
	*o = Order(v << 1)
	if skip {
		*o |= skips
	}
	return nil
}

// OrderAt is what the event is ordered by at target, 0 when it isn't, or was
// given the target after admission.
func (e *Event) OrderAt(target string) Order {
	if len(e.Orders) != len(e.Targets) {
		return 0
	}
	for i, name := range e.Targets {
		if name == target {
			return e.Orders[i]
		}
	}
	return 0
}
