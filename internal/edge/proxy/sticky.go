package proxy

import (
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/upstream"
	"slipway.dev/slipway/internal/route"
)

// choice is what balancing may look at in this request. For the usual backend
// that is nothing.
func (c *client) choice(handle *upstream.Handle) upstream.Choice {
	var choice upstream.Choice
	transport := handle.Transport()
	if transport.Sticky != nil {
		choice.Sticky = c.cookie(transport.Sticky.Name)
	}
	if transport.Hash.By != "" {
		choice.Hash, choice.HasHash = c.hash(transport.Hash)
	}
	return choice
}

// stick gives the client the cookie of the endpoint that answered it, if it
// does not have it yet.
func (c *client) stick(lease *upstream.Lease) {
	sticky := lease.Transport().Sticky
	if sticky == nil {
		return
	}
	value := lease.StickyValue()
	if c.cookie(sticky.Name) == value {
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
		text = c.clientAddress().String()
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
