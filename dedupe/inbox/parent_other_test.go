//go:build !linux

package inbox_test

import "syscall"

// withParent has nothing to add where the kernel can't tie two processes.
func withParent(syscall.Signal) *syscall.SysProcAttr { return &syscall.SysProcAttr{} }
