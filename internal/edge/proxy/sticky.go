package proxy

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// stickyBytes are taken of the hash that stands for a backend in a cookie.
const stickyBytes = 9

// stickyRule keeps clients at the backend that they got first, where a rule has
// several, and at its endpoint where the backend wants that: one cookie says
// both, as backend.endpoint. The values are the same on every replica and after
// every change of the table, and say nothing of names and addresses.
type stickyRule struct {
	cookie route.StickyCookie
	values []string // by the number of the handle
	lanes  map[string]int
}

func newStickyRule(rule *route.Rule, t *targets) *stickyRule {
	s := &stickyRule{cookie: *rule.Sticky, lanes: map[string]int{}}
	if s.cookie.Name == "" {
		id := rule.ID
		text := appendParts(nil, "slipway sticky rule", id.Kind, id.Namespace, id.Name, id.Variant)
		text = binary.BigEndian.AppendUint64(text, uint64(id.Rule))
		sum := sha256.Sum256(binary.BigEndian.AppendUint64(text, uint64(id.Path)))
		s.cookie.Name = "slipway_" + hex.EncodeToString(sum[:4])
	}
	for i, handle := range t.handles {
		// Nothing of the rule: rules that share a cookie's name share its meaning.
		id := handle.ID()
		text := appendParts(nil, "slipway sticky backend", id.Namespace, id.Name, id.Variant)
		sum := sha256.Sum256(binary.BigEndian.AppendUint16(text, id.Port))
		value := base64.RawURLEncoding.EncodeToString(sum[:stickyBytes])
		s.values = append(s.values, value)
		s.lanes[value] = i
	}
	return s
}

// appendParts writes the length of each part first, so that no two lists of
// parts are one.
func appendParts(dst []byte, parts ...string) []byte {
	for _, part := range parts {
		dst = binary.BigEndian.AppendUint64(dst, uint64(len(part)))
		dst = append(dst, part...)
	}
	return dst
}

// pick chooses a backend and an endpoint of it.
func (c *client) pick(b *binding) (target, error) {
	if b.sticky != nil {
		return c.pickSticky(b)
	}
	l := target{handle: b.only}
	if l.handle == nil {
		l.handle = b.targets.next()
	}
	var plain bool
	if l.lease, plain = l.handle.PickFast(); plain {
		return l, nil
	}
	l.choice = c.choice(l.handle)
	var err error
	l.lease, err = l.handle.Pick(l.choice)
	return l, err
}

// pickSticky leads a client back to where its cookie says. A backend that
// cannot serve it now loses it, to the one whose turn it is.
func (c *client) pickSticky(b *binding) (l target, err error) {
	backend, endpoint, _ := strings.Cut(c.cookie(b.sticky.cookie.Name), ".")
	at, known := b.sticky.lanes[backend]
	if !known {
		at = b.targets.turn()
	}
	for tried := 0; ; tried++ {
		l = target{handle: b.targets.handles[at], sticky: b.sticky.values[at]}
		l.choice = c.choice(l.handle)
		if known && endpoint != "" {
			l.choice.Sticky = endpoint
		}
		if l.lease, err = l.handle.Pick(l.choice); err == nil || !known || errors.Is(err, upstream.ErrOverloaded) {
			return l, err
		}
		// The turn may come to the same backend more than once.
		if next := b.targets.turn(); next != at || tried == len(b.targets.handles) {
			at, known = next, false
		}
	}
}

// choice is what balancing may look at in this request. For the usual backend
// that is nothing.
func (c *client) choice(handle *upstream.Handle) upstream.PickOptions {
	var choice upstream.PickOptions
	transport := handle.Transport()
	if transport.Sticky != nil {
		choice.Sticky = c.cookie(transport.Sticky.Name)
	}
	if transport.Hash != nil {
		choice.Hash, choice.HasHash = c.hash(*transport.Hash)
	}
	return choice
}

// stick gives the client the cookie of the backend and the endpoint that
// answered it, if it does not have it yet.
func (c *client) stick(b *binding, lane *target) {
	var sticky *route.StickyCookie
	value := lane.lease.StickyValue()
	if value != "" {
		sticky = lane.lease.Transport().Sticky
	}
	if b.sticky != nil {
		sticky = &b.sticky.cookie
		if value != "" {
			value = "." + value
		}
		value = lane.sticky + value
	}
	if sticky == nil || c.cookie(sticky.Name) == value {
		return
	}
	edit, err := h1.AddField("Set-Cookie", setCookie(sticky, value))
	if err != nil {
		// The table is validated: this is a mistake of the program.
		c.proxy.cfg.Log.Error("a sticky cookie cannot be set", "cookie", sticky.Name, "error", err)
		return
	}
	c.x.ResponseEdits = append(c.x.ResponseEdits, edit)
}

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

// cookie is the value of a cookie, empty when there is none. It is a part of
// the request's head.
func (c *client) cookie(name string) string {
	for line := range c.head.Len() {
		if c.head.ID(line) != normalize.FieldCookie {
			continue
		}
		for pair := range strings.SplitSeq(normalize.View(c.head.Value(line)), ";") {
			if key, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && key == name {
				return value
			}
		}
	}
	return ""
}

// hash is the number that a request is balanced by. It is the same on every
// replica. A request without the header or cookie has none.
func (c *client) hash(key route.HashKey) (uint64, bool) {
	var text string
	switch key.By {
	case route.KeyClient:
		text = c.record.Client.String()
	case route.KeyHost:
		text = c.request.Host
	case route.KeyPath:
		text = c.request.Path
	case route.KeyHeader:
		text, _ = c.Value(key.Name, 0)
	case route.KeyCookie:
		text = c.cookie(key.Name)
	}
	if text == "" {
		return 0, false
	}
	sum := fnv.New64a()
	sum.Write(normalize.Bytes(text))
	return sum.Sum64(), true
}
