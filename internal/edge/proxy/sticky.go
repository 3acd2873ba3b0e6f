package proxy

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/route"
)

// stickyBytes are taken of the hash that stands for a backend in a cookie.
const stickyBytes = 9

// stickyRule keeps clients at the backend that they got first, where a rule has
// several, and at its endpoint where the backend is sticky too: one cookie holds
// both, as backend.endpoint. The values are hashes: the same on every replica
// and after every change of the table, and without names or addresses, which
// are not for clients to read.
type stickyRule struct {
	cookie   route.StickyCookie
	values   []string       // by the index of the handle
	backends map[string]int // the index of the handle, by value
}

func newStickyRule(rule *route.Rule, t *weightedBackends) *stickyRule {
	s := &stickyRule{cookie: *rule.Sticky, backends: map[string]int{}}
	if s.cookie.Name == "" {
		id := rule.ID
		text := appendParts(nil, "slipway sticky rule", id.Kind, id.Namespace, id.Name, id.Variant)
		text = binary.BigEndian.AppendUint64(text, uint64(id.Rule))
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, uint64(id.Path)))
		s.cookie.Name = "slipway_" + hex.EncodeToString(sum[:4])
	}
	for i, handle := range t.handles {
		// The rule is not part of the hash: rules that share the name of a cookie
		// share its values too.
		id := handle.ID()
		text := appendParts(nil, "slipway sticky backend", id.Namespace, id.Name, id.Variant)
		sum := sha256.Sum256(binary.BigEndian.AppendUint16(text, id.Port))
		value := base64.RawURLEncoding.EncodeToString(sum[:stickyBytes])
		s.values = append(s.values, value)
		s.backends[value] = i
	}
	return s
}

// appendParts appends each part with its length in front, so that no two lists
// of parts have the same bytes.
func appendParts(dst []byte, parts ...string) []byte {
	for _, part := range parts {
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

// setStickyCookie gives the client the cookie of the backend and the endpoint
// that responded, if it does not have it yet.
func (a *attempt) setStickyCookie() {
	x := a.x
	var sticky *route.StickyCookie
	value := a.target.lease.StickyValue()
	if value != "" {
		sticky = a.target.lease.Transport().Sticky
	}
	if rule := x.rule.sticky; rule != nil {
		sticky = &rule.cookie
		if value != "" {
			value = "." + value
		}
		value = a.target.sticky + value
	}
	if sticky == nil || x.cookie(sticky.Name) == value {
		return
	}
	edit, err := h1.AddField("Set-Cookie", setCookie(sticky, value))
	if err != nil {
		// The table is validated, so this is an internal error.
		x.conn.proxy.cfg.Log.Error("cannot set sticky cookie", "cookie", sticky.Name, "error", err)
		return
	}
	x.filters.ResponseEdits = append(x.filters.ResponseEdits, edit)
}

// setCookie composes the value of Set-Cookie (RFC 6265, 4.1).
func setCookie(sticky *route.StickyCookie, value string) string {
	var b strings.Builder
	b.WriteString(sticky.Name + "=" + value)
	path := sticky.Path
	if path == "" {
		path = "/"
	}
	b.WriteString("; Path=" + path)
	if sticky.Domain != "" {
		b.WriteString("; Domain=" + sticky.Domain)
	}
	if age := time.Duration(sticky.MaxAge); age > 0 {
		b.WriteString("; Max-Age=" + strconv.FormatInt(int64(age/time.Second), 10))
	}
	if sticky.Secure {
		b.WriteString("; Secure")
	}
	if sticky.HTTPOnly {
		b.WriteString("; HttpOnly")
	}
	switch sticky.SameSite {
	case route.SameSiteNone:
		b.WriteString("; SameSite=None")
	case route.SameSiteLax:
		b.WriteString("; SameSite=Lax")
	case route.SameSiteStrict:
		b.WriteString("; SameSite=Strict")
	}
	return b.String()
}

// cookie returns the value of a cookie of the request, empty when there is none.
// It shares the bytes of the head.
func (x *exchange) cookie(name string) string {
	head := &x.conn.head
	for line := range head.Len() {
		if head.ID(line) != normalize.FieldCookie {
			continue
		}
		for pair := range strings.SplitSeq(normalize.View(head.Value(line)), ";") {
			if key, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && key == name {
				return value
			}
		}
	}
	return ""
}
