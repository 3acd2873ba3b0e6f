package upstream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"io"

	"slipway.dev/slipway/internal/route"
)

// stickyBytes are taken of the hash that stands for an endpoint: 12 characters
// of text, and no two endpoints of a backend have the same.
const stickyBytes = 9

// stickyHasher makes the values of one backend's sticky cookie. They say nothing
// of the address and do not depend on the process that makes them.
type stickyHasher struct {
	id  route.BackendID
	mac hash.Hash
}

func newStickyHasher(id route.BackendID, key route.Secret) *stickyHasher {
	return &stickyHasher{id: id, mac: hmac.New(sha256.New, []byte("slipway sticky endpoint\n"+key.Reveal()))}
}

func (s *stickyHasher) value(address string) string {
	s.mac.Reset()
	writeBackendID(s.mac, s.id)
	writePart(s.mac, address)
	return base64.RawURLEncoding.EncodeToString(s.mac.Sum(nil)[:stickyBytes])
}

// cookieName is the name of a sticky cookie that was given none. Two backends
// of one site have to have different ones.
func cookieName(id route.BackendID) string {
	sum := sha256.New()
	writeBackendID(sum, id)
	return "slipway_" + hex.EncodeToString(sum.Sum(nil)[:4])
}

func writeBackendID(w hash.Hash, id route.BackendID) {
	writePart(w, id.Namespace)
	writePart(w, id.Name)
	writePart(w, id.Variant)
	w.Write(binary.BigEndian.AppendUint16(nil, id.Port))
}

// writePart writes the length first, so that no two lists of parts are one.
// Writing to a hash does not fail.
func writePart(w hash.Hash, part string) {
	w.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
	_, _ = io.WriteString(w, part)
}
