package tlsstore

import (
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"time"

	"slipway.dev/slipway/internal/secret"
)

const (
	ticketKeySize = 32
	// A key makes tickets for one period and accepts them for two more, so
	// there are at most three.
	ticketPeriod  = 12 * time.Hour
	ticketKeep    = 3
	maxTicketKeys = 16
	// ticketUse separates the keys from others that are derived from the same
	// secret.
	ticketUse = "slipway tls session ticket "
)

// ticketKey is a secret that the keys of all option sets are derived from.
type ticketKey struct {
	secret  [ticketKeySize]byte
	created time.Time
}

// ticketRing is the ticket keys of a store, the newest first. It is guarded by
// the store's mutex.
type ticketRing struct {
	keys []ticketKey
}

// rotate makes a new key and drops those that are too old.
func (r *ticketRing) rotate(now time.Time) {
	kept := []ticketKey{{created: now}}
	// Since Go 1.24 rand.Read does not fail: it ends the program.
	_, _ = rand.Read(kept[0].secret[:])
	for _, key := range r.keys {
		if now.Sub(key.created) < ticketKeep*ticketPeriod {
			kept = append(kept, key)
		}
	}
	r.keys = kept
}

// install sets the ticket keys of a config. Each set of options has its own, so
// that a session made without a client certificate cannot be resumed where one
// is needed. They depend on nothing but the secret and the options: replicas
// with the same secrets resume each other's sessions.
func (r *ticketRing) install(config *tls.Config, id OptionsID) {
	keys := make([][ticketKeySize]byte, len(r.keys))
	for i := range r.keys {
		derived, err := hkdf.Expand(sha256.New, r.keys[i].secret[:], ticketUse+string(id[:]), ticketKeySize)
		if err != nil {
			// Only asking for too many bytes fails, and the size is a constant.
			panic(err)
		}
		copy(keys[i][:], derived)
	}
	config.SetSessionTicketKeys(keys)
}

// SetTicketKeys replaces the ticket keys with keys of 32 random bytes, so that
// replicas can share them. The first one makes tickets, all of them are
// accepted. The store no longer rotates keys after this; the caller does.
func (s *Store) SetTicketKeys(keys []secret.Text) error {
	if len(keys) == 0 || len(keys) > maxTicketKeys {
		return fmt.Errorf("%d session ticket keys are given; give 1 to %d", len(keys), maxTicketKeys)
	}
	ring := ticketRing{keys: make([]ticketKey, len(keys))}
	for i, key := range keys {
		if n := copy(ring.keys[i].secret[:], key.Reveal()); n != ticketKeySize || len(key.Reveal()) != n {
			return fmt.Errorf("session ticket key %d has %d bytes; it must have %d", i+1, len(key.Reveal()), ticketKeySize)
		}
		if ring.keys[i].secret == [ticketKeySize]byte{} {
			return errors.New("a session ticket key is all zeros; use random bytes")
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ring = ring
	s.rotateAt.Store(math.MaxInt64)
	s.installTickets()
	return nil
}

// rotateTickets makes a new ticket key when it is due. Handshakes call it, so
// that no goroutine is needed: keys that are not used need no rotation.
func (s *Store) rotateTickets(now time.Time) {
	if now.UnixNano() < s.rotateAt.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.UnixNano() < s.rotateAt.Load() {
		return
	}
	s.ring.rotate(now)
	s.rotateAt.Store(now.Add(ticketPeriod).UnixNano())
	s.installTickets()
}

func (s *Store) installTickets() {
	for id, config := range s.configs {
		s.ring.install(config, id)
	}
}
