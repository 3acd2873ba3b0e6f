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

// stickyBytes is how many bytes of the hash of an endpoint are used: 12
// characters of text, in which two endpoints of a backend do not collide.
const stickyBytes = 9

// stickyHasher makes the values of one backend's sticky cookie. They do not
// reveal the address and are the same on every replica.
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

// stickyMark separates the value of an endpoint from the mark of its revision. No value
// has it.
const stickyMark = "~"

// mark stands for a revision at the end of a sticky value.
func (s *stickyHasher) mark(revision string) string {
	return stickyMark + s.value("revision " + revision)[:4]
}

// cookieName is the name of a sticky cookie for which the backend sets none.
// Two backends of one site need different names.
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

// writePart writes the length first, so that no two lists of parts have the
// same hash. Writing to a hash does not fail.
func writePart(w hash.Hash, part string) {
	w.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
	_, _ = io.WriteString(w, part)
}
