package receiver

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// stopConnecting has the kernel take no further connection on ln, and keep
// those it has taken: a socket filter drops every packet that asks for one. A
// sender that asks meanwhile asks again a second later and is refused then,
// before it has sent anything. It reports whether the kernel does so.
func stopConnecting(ln net.Listener) bool {
	sc, ok := ln.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return false
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: 0}
	var set error
	err = raw.Control(func(fd uintptr) {
		set = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	})
	return err == nil && set == nil
}
