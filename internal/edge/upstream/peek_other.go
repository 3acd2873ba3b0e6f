//go:build !unix

package upstream

import "syscall"

// peek knows nothing here. The proxy sends a request again when a reused
// connection dies before its answer.
func peek(syscall.RawConn) ending { return endQuiet }
