package forward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
)

// ErrBlocked is why a connection was refused by the egress guard.
var ErrBlocked = errors.New("address refused by the egress guard")

// blockedError says which address was refused and why.
type blockedError struct {
	addr netip.Addr
	why  string
}

func (e *blockedError) Error() string {
	return fmt.Sprintf("%v: %s: %s", ErrBlocked, e.addr, e.why)
}

func (e *blockedError) Unwrap() error { return ErrBlocked }

func blockedText(err error) string {
	var b *blockedError
	if errors.As(err, &b) {
		return b.Error()
	}
	return ErrBlocked.Error()
}

// guard decides on the address a socket is about to connect to, after every
// look-up, so that no spelling and no name that changes its mind gets around
// it. The table is our own: libraries for this refuse private networks, which
// are where targets live, and, told to allow those, no longer look inside
// addresses that embed an IPv4 address.
type guard struct {
	allow []netip.Prefix // empty: everything that is not refused
}

// refusal is a network nothing may connect to.
type refusal struct {
	net netip.Prefix
	why string
}

var refusals4 = []refusal{
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("100.100.100.200/32"), "cloud metadata"},
	{netip.MustParsePrefix("168.63.129.16/32"), "cloud metadata"},
	{netip.MustParsePrefix("169.254.0.0/16"), "link-local"},
	{netip.MustParsePrefix("192.0.0.192/32"), "cloud metadata"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved or broadcast"},
}

var refusals6 = []refusal{
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "cloud metadata"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "cloud metadata"},
	{netip.MustParsePrefix("fe80::/10"), "link-local"},
	{netip.MustParsePrefix("fec0::/10"), "site-local"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
}

var (
	prefixCompatible = netip.MustParsePrefix("::/96")
	prefixSIIT       = netip.MustParsePrefix("::ffff:0:0:0/96")
	prefix6to4       = netip.MustParsePrefix("2002::/16")
	prefixTeredo     = netip.MustParsePrefix("2001::/32")
	prefixNAT64      = netip.MustParsePrefix("64:ff9b::/96")
	prefixNAT64Local = netip.MustParsePrefix("64:ff9b:1::/48")
)

// control is the ControlContext of a net.Dialer.
func (g guard) control(_ context.Context, _, address string, _ syscall.RawConn) error {
	ap, err := netip.ParseAddrPort(address)
	if err != nil {
		return &blockedError{why: "is not an IP address"}
	}
	return g.check(ap.Addr())
}

// check is nil when addr may be connected to.
func (g guard) check(addr netip.Addr) error {
	plain := addr.Unmap().WithZone("")
	if why := refused(plain); why != "" {
		return &blockedError{addr: addr, why: why}
	}
	if len(g.allow) > 0 && !slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(plain) }) {
		return &blockedError{addr: addr, why: "is outside the target's allow list"}
	}
	return nil
}

// refused is why nothing may connect to addr, "" when it may.
func refused(addr netip.Addr) string {
	if !addr.IsValid() {
		return "is not an IP address"
	}
	if addr.Is4() {
		return find(refusals4, addr)
	}
	if why := find(refusals6, addr); why != "" {
		return why
	}
	for _, v4 := range embedded(addr.As16()) {
		if why := find(refusals4, v4); why != "" {
			return why + " (embedded)"
		}
	}
	return ""
}

func find(table []refusal, addr netip.Addr) string {
	for _, r := range table {
		if r.net.Contains(addr) {
			return r.why
		}
	}
	return ""
}

// embedded lists the IPv4 addresses that a router or the host might make of
// an IPv6 address. In the local NAT64 network the prefix length is the
// operator's choice, so each place where the address can stand counts.
func embedded(b [16]byte) []netip.Addr {
	addr := netip.AddrFrom16(b)
	v4 := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	tail := v4(12, 13, 14, 15)
	switch {
	case addr.IsLoopback():
		return nil // ::1 would read as 0.0.0.1
	case prefixCompatible.Contains(addr), prefixSIIT.Contains(addr), prefixNAT64.Contains(addr):
		return []netip.Addr{tail}
	case prefixNAT64Local.Contains(addr):
		out := []netip.Addr{tail}
		for _, a := range []netip.Addr{v4(6, 7, 9, 10), v4(7, 9, 10, 11), v4(9, 10, 11, 12)} {
			if a.As4()[0] != 0 { // else it stands in another place
				out = append(out, a)
			}
		}
		return out
	case prefix6to4.Contains(addr):
		return []netip.Addr{v4(2, 3, 4, 5)}
	case prefixTeredo.Contains(addr):
		client := netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
		return []netip.Addr{v4(4, 5, 6, 7), client}
	case b[8]&^0x03 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe: // ISATAP
		return []netip.Addr{tail}
	}
	return nil
}
