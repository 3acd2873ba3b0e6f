package tlsstore

import (
	"cmp"
	"crypto/tls"
	"iter"
)

// choose returns the best certificate for a name, or nil when none has the
// name. In this order: one that the client supports and that is valid now,
// under the exact name before the wildcard; one that has expired, because its
// error is clearer to a user than that of a certificate for another name; one
// that the client does not support.
func choose(hello *tls.ClientHelloInfo, exact, wild *entry, now int64) *pair {
	if first, more := peekCandidates(exact, wild); !more {
		return first
	}
	var expired, unsupported *pair
	for p := range candidates(exact, wild) {
		if valid := p.validAt(now); !valid && expired != nil {
			continue
		} else if !supports(hello, p) {
			if unsupported == nil {
				unsupported = p
			}
		} else if valid {
			return p
		} else {
			expired = p
		}
	}
	return cmp.Or(expired, unsupported)
}

// peekCandidates returns the first candidate, and whether there is another one.
// Nearly all hosts have one certificate, and nothing to choose from.
func peekCandidates(exact, wild *entry) (first *pair, more bool) {
	for p := range candidates(exact, wild) {
		if first != nil {
			return first, true
		}
		first = p
	}
	return first, false
}

// candidates are the certificates for a name, the best first. A wildcard
// certificate is not shown for a name that belongs to another namespace.
func candidates(exact, wild *entry) iter.Seq[*pair] {
	return func(yield func(*pair) bool) {
		if exact != nil {
			for i := range exact.certs {
				if !yield(exact.certs[i].pair) {
					return
				}
			}
		}
		if wild == nil {
			return
		}
		for i := range wild.certs {
			if exact != nil && !exact.mayUse(wild.certs[i].owner) {
				continue
			}
			if !yield(wild.certs[i].pair) {
				return
			}
		}
	}
}

// supports reports whether the client can verify signatures of this kind of
// key. The name is not checked again: Index.find has matched it.
func supports(hello *tls.ClientHelloInfo, p *pair) bool {
	nameless := *hello
	nameless.ServerName = ""
	return nameless.SupportsCertificate(&p.certificate) == nil
}
