package inbox_test

import "syscall"

// withParent has the kernel send a process sig when the test itself is killed.
func withParent(sig syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: sig}
}
