//go:build !linux

package servicetest

import "syscall"

// withParent does nothing where the system cannot end a child with its parent.
func withParent() *syscall.SysProcAttr { return nil }
