package edge

import (
	"context"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"slipway.dev/slipway/internal/edge/proxy"
	"slipway.dev/slipway/internal/route"
	"slipway.dev/slipway/internal/secret"
)

// MinSharedSecret is the least length of a shared secret, in bytes.
const MinSharedSecret = 32

// ticketEpoch is how long one key encrypts session tickets. A ticket is
// accepted for one epoch more, and so is one of a replica whose clock is ahead.
const ticketEpoch = 24 * time.Hour

// derive derives a key for one purpose from the secret that all replicas share.
func derive(shared secret.Text, purpose string) (string, error) {
	if len(shared.Reveal()) < MinSharedSecret {
		return "", fmt.Errorf("the shared secret has fewer than %d bytes; make one with: head -c 32 /dev/urandom | base64", MinSharedSecret)
	}
	key, err := hkdf.Key(sha256.New, []byte(shared.Reveal()), nil, "slipway edge "+purpose, 32)
	return string(key), err
}

// ticketKeys returns the keys for session tickets at a time: today's, which
// encrypts, yesterday's and tomorrow's. So replicas rotate them together
// without communication.
func ticketKeys(shared secret.Text, now time.Time) ([]secret.Text, error) {
	epoch := now.Unix() / int64(ticketEpoch/time.Second)
	var keys []secret.Text
	for _, e := range []int64{epoch, epoch - 1, epoch + 1} {
		key, err := derive(shared, "session tickets "+strconv.FormatInt(e, 10))
		if err != nil {
			return nil, err
		}
		keys = append(keys, secret.New(key))
	}
	return keys, nil
}

// stickyKey is the key for the values of sticky cookies.
func stickyKey(shared secret.Text) (route.Secret, error) {
	if shared.IsZero() {
		return route.Secret{}, nil
	}
	key, err := derive(shared, "sticky cookies")
	return route.NewSecret(key), err
}

// hopID is the identity by which the edge finds its own requests in a loop.
// Replicas with a shared secret have one identity, so that the first turn of a
// loop ends it.
func hopID(shared secret.Text) (string, error) {
	id := rand.Text()
	if !shared.IsZero() {
		var err error
		if id, err = derive(shared, "loop detection"); err != nil {
			return "", err
		}
	}
	return proxy.HopPrefix + hex.EncodeToString([]byte(id)[:hopBytes]), nil
}

// hopBytes is the length of the identity: enough that no two edges share one by
// accident. It is no secret, backends see it.
const hopBytes = 8

// setTicketKeys sets the ticket keys of the store.
func (s *Server) setTicketKeys(now time.Time) error {
	if s.options.SharedSecret.IsZero() {
		return nil // the store rotates its own
	}
	keys, err := ticketKeys(s.options.SharedSecret, now)
	return errors.Join(err, s.certificates.SetTicketKeys(keys))
}

// rotateTickets changes the keys for session tickets with each epoch, until ctx
// is done.
func (s *Server) rotateTickets(ctx context.Context) {
	if s.options.SharedSecret.IsZero() {
		return
	}
	for {
		now := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-time.After(now.Truncate(ticketEpoch).Add(ticketEpoch).Sub(now)):
		}
		if err := s.setTicketKeys(time.Now()); err != nil {
			s.options.Log.Error("rotating session ticket keys failed", "error", err)
		}
	}
}
