package filter

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"net/netip"

	"slipway.dev/slipway/internal/edge/h1"
	"slipway.dev/slipway/internal/edge/normalize"
	"slipway.dev/slipway/internal/edge/sharedlimit"
	"slipway.dev/slipway/internal/route"
)

// requestKey computes the key that requests are counted by. It is a number, so
// that a key takes the same memory however long the client's header is.
//
// A request without the header or cookie, or with two of them, is counted by
// its client: it neither escapes the limit nor uses up what others share.
type requestKey struct {
	by             route.KeySource
	name           string
	client         *clientSource
	clients, texts maphash.Seed
	// shared replaces both seeds where replicas must have the same keys.
	shared *sharedlimit.HashKey
}

// newRequestKey compiles a key of the table; an empty one is the fallback.
func newRequestKey(key route.HashKey, fallback route.KeySource, client *route.ClientSource, c *Counters) (requestKey, error) {
	k := requestKey{by: cmp.Or(key.By, fallback), name: key.Name, clients: c.clients, texts: c.texts}
	if c.sharing != nil {
		k.shared = &c.sharing.hash
	}
	var err error
	if k.client, err = newClientSource(client); err != nil {
		return k, err
	}
	switch k.by {
	case route.KeyAll, route.KeyClient, route.KeyHost, route.KeyPath:
	case route.KeyHeader, route.KeyCookie:
		if k.name == "" {
			return k, invalid("key.name", "give the name of the %s", k.by)
		}
	default:
		return k, invalid("key.by", "%q is none of all, client, host, path, header, cookie", k.by)
	}
	return k, nil
}

// of returns the key of a request. It is never 0, which marks use for none.
func (k *requestKey) of(x *Exchange) uint64 {
	var text []byte
	found := true
	switch k.by {
	case route.KeyAll:
		return 1
	case route.KeyHost:
		text = x.Head.URI.Host
	case route.KeyPath:
		text = x.Head.URI.Path
	case route.KeyHeader:
		text, found = onlyField(x.Head, k.name)
	case route.KeyCookie:
		text, found = onlyCookie(x.Head, k.name)
	default:
		found = false
	}
	if !found {
		addr := k.client.of(x)
		if !addr.IsValid() {
			addr = x.Client
		}
		return max(1, k.clientSum(addr))
	}
	return max(1, k.sum(k.texts, text))
}

// sum hashes a text, with the seed of this process or the key of all replicas.
func (k *requestKey) sum(seed maphash.Seed, text []byte) uint64 {
	if k.shared != nil {
		return k.shared.Sum(text)
	}
	return maphash.Bytes(seed, text)
}

// clientSum hashes an address. An IPv6 client has a network of 64 bits to take
// addresses from, so that network is one client.
func (k *requestKey) clientSum(addr netip.Addr) uint64 {
	addr = addr.Unmap()
	switch {
	case addr.Is4():
		four := addr.As4()
		return k.sum(k.clients, four[:])
	case addr.Is6():
		sixteen := addr.As16()
		return k.sum(k.clients, sixteen[:8])
	}
	return 0
}

// onlyField returns the value of a header that is there exactly once.
func onlyField(head *h1.Head, name string) (value []byte, ok bool) {
	for i := range head.Len() {
		if !bytes.EqualFold(head.Name(i), normalize.Bytes(name)) {
			continue
		}
		if ok {
			return nil, false
		}
		value, ok = head.Value(i), true
	}
	return value, ok
}

// onlyCookie returns the value of a cookie that is there exactly once.
func onlyCookie(head *h1.Head, name string) (value []byte, ok bool) {
	for i := range head.Len() {
		if head.ID(i) != normalize.FieldCookie {
			continue
		}
		for pair, rest, more := cutCookie(head.Value(i)); ; pair, rest, more = cutCookie(rest) {
			if key, found, has := bytes.Cut(pair, []byte("=")); has && string(key) == name {
				if ok {
					return nil, false
				}
				value, ok = found, true
			}
			if !more {
				break
			}
		}
	}
	return value, ok
}

// cutCookie cuts the first pair off a list of cookies.
func cutCookie(list []byte) (pair, rest []byte, more bool) {
	pair, rest, more = bytes.Cut(list, []byte(";"))
	return bytes.Trim(pair, " \t"), rest, more
}
