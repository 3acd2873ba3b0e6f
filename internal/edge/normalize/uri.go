package normalize

import (
	"bytes"
	"strconv"
	"unsafe"
)

// URI is the canonical reading of a request's target and host. Its slices
// share bytes with the input or with memory that the URI keeps for its next
// use: they hold until the input changes or Resolve is called again. The zero
// value is ready for Resolve, and reusing it makes Resolve free of allocations.
type URI struct {
	// Host is the canonical host without port, empty when there is none.
	Host []byte
	// Authority is Host with the port that the client gave, if it gave one:
	// the value of the Host header to forward.
	Authority []byte
	// Path is the canonical path, "*" for the asterisk form.
	Path []byte
	// Query is what follows the first question mark, byte for byte.
	Query []byte
	// Port is the port in the host, 0 when there is none.
	Port uint16
	// HasQuery distinguishes an empty query from none.
	HasQuery bool
	// Asterisk reports that the target is "*", of OPTIONS for the whole server.
	Asterisk bool
	// Hazards are those found in the path. Resolve has refused those that it was not
	// to allow; a route that allows fewer checks again.
	Hazards Hazard
	// Rewritten reports that the path is spelled differently from the client's.
	Rewritten bool

	scratch []byte
}

// Raw is the request target and host as the client sent them.
type Raw struct {
	// Target is the request target of HTTP/1.1, or :path.
	Target []byte
	// Host is the value of Host, or :authority.
	Host []byte
	// Options reports that the method is OPTIONS, the only one that allows "*".
	Options bool
	// HostOptional accepts an empty Host, as HTTP/1.0 has it.
	HostOptional bool
}

// Resolve reads a target and a host. Hazards that are not in allow are
// refused. After an error the URI holds nothing of use.
func (u *URI) Resolve(raw Raw, allow Hazard) error {
	if u.scratch == nil {
		u.scratch = make([]byte, 0, firstScratch)
	}
	*u = URI{scratch: u.scratch[:0]}
	target := raw.Target
	if len(target) == 0 {
		return ErrTargetForm
	}
	if err := u.setHost(raw); err != nil {
		return err
	}
	if target[0] != '/' {
		if len(target) == 1 && target[0] == '*' {
			return u.setAsterisk(target, raw.Options)
		}
		rest, err := u.setAbsolute(target)
		if err != nil {
			return err
		}
		if len(rest) == 0 && raw.Options {
			return u.setAsterisk(append(u.scratch, '*')[len(u.scratch):], true)
		}
		if len(rest) == 0 || rest[0] == '?' {
			// The path of http://host is the root; it has no bytes of its own.
			u.Path, u.Rewritten = append(u.scratch, '/')[len(u.scratch):], true
			return u.setQuery(rest)
		}
		target = rest
	}
	path := target
	if i := bytes.IndexByte(target, '?'); i >= 0 {
		path = target[:i]
		if err := u.setQuery(target[i:]); err != nil {
			return err
		}
	}
	return u.setPath(path, allow)
}

// AppendTarget appends the canonical target in origin form, or "*".
func (u *URI) AppendTarget(dst []byte) []byte {
	dst = append(dst, u.Path...)
	if u.HasQuery {
		dst = append(dst, '?')
		dst = append(dst, u.Query...)
	}
	return dst
}

func (u *URI) setHost(raw Raw) error {
	if len(raw.Host) == 0 && raw.HostOptional {
		return nil
	}
	host, port, err := Host(u.scratch, raw.Host)
	if err != nil {
		return err
	}
	u.Host, u.Port = host, port
	u.Authority = raw.Host
	if !bytes.HasPrefix(raw.Host, host) || port == 0 && len(host) != len(raw.Host) || port != 0 && raw.Host[len(host)] != ':' {
		// The host itself stays at the start of this copy.
		authority := append(u.scratch, host...)
		if port != 0 {
			authority = append(authority, ':')
			authority = strconv.AppendUint(authority, uint64(port), 10)
		}
		u.Host, u.Authority, u.scratch = authority[:len(host)], authority, authority
	}
	return nil
}

func (u *URI) setAsterisk(target []byte, options bool) error {
	if !options {
		return ErrAsterisk
	}
	u.Path, u.Asterisk = target, true
	return nil
}

// setAbsolute checks the authority of an absolute target against Host and
// returns what follows it. RFC 9112 has a proxy replace Host by the authority;
// clients send both alike, so a difference is refused instead.
func (u *URI) setAbsolute(target []byte) (rest []byte, err error) {
	defaultPort := uint16(80)
	switch {
	case hasPrefixFold(target, "http://"):
		target = target[len("http://"):]
	case hasPrefixFold(target, "https://"):
		target, defaultPort = target[len("https://"):], 443
	default:
		return nil, ErrTargetForm
	}
	end := bytes.IndexAny(target, "/?#")
	if end < 0 {
		end = len(target)
	}
	if end == 0 {
		return nil, ErrTargetForm
	}
	rest = target[end:]
	if u.Host == nil {
		return rest, u.setHost(Raw{Host: target[:end]})
	}
	host, port, err := Host(u.scratch[len(u.scratch):], target[:end])
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(host, u.Host) || orDefault(port, defaultPort) != orDefault(u.Port, defaultPort) {
		return nil, ErrHostMismatch
	}
	return rest, nil
}

// setQuery takes "?..." or nothing.
func (u *URI) setQuery(query []byte) error {
	if len(query) == 0 {
		return nil
	}
	query = query[1:]
	for _, c := range query {
		if c-0x21 > 0x7e-0x21 {
			return ErrTargetByte
		}
		if c == '#' {
			return ErrFragment
		}
	}
	u.Query, u.HasQuery = query, true
	return nil
}

func (u *URI) setPath(raw []byte, allow Hazard) error {
	path, hazards, err := Path(u.scratch, raw)
	if err != nil {
		return err
	}
	if hazards&^allow != 0 {
		return hazards.Check(allow)
	}
	u.Path, u.Hazards = path, hazards
	if len(path) != len(raw) || &path[0] != &raw[0] {
		u.Rewritten = !bytes.Equal(path, raw)
		// Keep what Path may have grown for the next request.
		if grown := cap(path) + len(u.scratch); grown > cap(u.scratch) && grown <= maxScratch {
			u.scratch = path[:0]
		}
	}
	return nil
}

// The memory that a URI starts with, and the most that it keeps when idle.
const (
	firstScratch = 128
	maxScratch   = 4096
)

func orDefault(port, fallback uint16) uint16 {
	if port == 0 {
		return fallback
	}
	return port
}

func hasPrefixFold(b []byte, prefix string) bool {
	return len(b) >= len(prefix) && EqualFold(b[:len(prefix)], prefix)
}

// View returns b as a string that shares its bytes. The string changes when b
// does: use it to look something up, never keep it.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Bytes returns s as bytes that share its memory. They must not be written to.
func Bytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
