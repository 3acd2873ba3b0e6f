package identity

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"slipway.dev/slipway/internal/platform/signing"
)

// ticketBytes bounds a ticket that a client presents.
const ticketBytes = 16 << 10

// Purposes of tickets. A ticket of one purpose is invalid for another.
const (
	ticketOIDC    = "oidc sign-in"
	ticketSignIn  = "second factor"
	ticketTOTP    = "totp"
	ticketPasskey = "passkey"
)

// ticketSealer issues tickets: the state of something that a client has begun,
// encrypted and authenticated, for the client to present when it finishes.
// Replicas keep no state between the two requests.
type ticketSealer struct {
	sealer signing.Sealer
	now    func() time.Time
}

// sealedTicket is the content of a ticket.
type sealedTicket struct {
	Expires time.Time       `json:"e"`
	Value   json.RawMessage `json:"v"`
}

var errTicket = errors.New("the ticket is invalid or has expired")

// seal returns a ticket with a value.
func (s ticketSealer) seal(purpose string, life time.Duration, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	plain, err := json.Marshal(sealedTicket{Expires: s.now().Add(life), Value: text})
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(s.sealer.Seal(plain, purpose)), nil
}

// open decodes the value of a ticket that has not expired. The error is
// errTicket for all reasons.
func (s ticketSealer) open(purpose, text string, value any) error {
	if text == "" || len(text) > ticketBytes {
		return errTicket
	}
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil {
		return errTicket
	}
	plain, err := s.sealer.Open(sealed, purpose)
	if err != nil {
		return errTicket
	}
	var content sealedTicket
	if json.Unmarshal(plain, &content) != nil || !s.now().Before(content.Expires) || json.Unmarshal(content.Value, value) != nil {
		return errTicket
	}
	return nil
}
