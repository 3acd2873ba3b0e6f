package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"

	"rsc.io/qr"

	"slipway.dev/slipway/internal/secret"
)

// Parameters of RFC 6238. Authenticator apps support no others reliably, and
// SHA-1 is sound in HMAC.
const (
	totpPeriod      = 30 * time.Second
	totpDigits      = 6
	totpModulus     = 1_000_000
	totpSecretBytes = 20
	// totpSkew is the number of steps by which the clocks may differ.
	totpSkew = 1
)

var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// newTOTPSecret returns a random secret in base32.
func newTOTPSecret() secret.Text {
	random := make([]byte, totpSecretBytes)
	_, _ = rand.Read(random) // never fails, as its documentation says
	return secret.New(base32Text.EncodeToString(random))
}

// totpCode returns the code of a time step (RFC 4226, section 5.3).
func totpCode(key []byte, step int64) string {
	mac := hmac.New(sha1.New, key)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
	sum := mac.Sum(nil)
	offset := sum[len(sum)-1] & 0xf
	number := binary.BigEndian.Uint32(sum[offset:]) & 0x7fffffff
	return fmt.Sprintf("%0*d", totpDigits, number%totpModulus)
}

// totpStep returns the time step whose code was entered. All steps are
// compared, in constant time: the time reveals neither digits nor the clock of
// the user. The newest step wins, so that a code is not good twice if two steps
// have the same.
func totpStep(value secret.Text, code string, now time.Time) (step int64, ok bool) {
	code = strings.ReplaceAll(code, " ", "")
	key, err := base32Text.DecodeString(value.Reveal())
	if err != nil || len(code) != totpDigits {
		return 0, false
	}
	current := now.Unix() / int64(totpPeriod/time.Second)
	for candidate := current - totpSkew; candidate <= current+totpSkew; candidate++ {
		equal := subtle.ConstantTimeCompare([]byte(totpCode(key, candidate)), []byte(code))
		step = int64(subtle.ConstantTimeSelect(equal, int(candidate), int(step)))
	}
	return step, step != 0
}

// totpURI returns the URI that authenticator apps scan (Key URI Format).
func totpURI(issuer, email string, value secret.Text) string {
	query := url.Values{"secret": {value.Reveal()}, "issuer": {issuer}}
	// Apps read + as a plus sign.
	return "otpauth://totp/" + url.PathEscape(issuer+":"+email) + "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
}

// qrMargin is the quiet zone that ISO 18004 requires, in modules.
const qrMargin = 4

// qrPath returns a QR code as the path of an SVG of size by size modules.
func qrPath(text string) (path string, size int, err error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return "", 0, err
	}
	var b strings.Builder
	for y := range code.Size {
		for x := 0; x < code.Size; x++ {
			start := x
			for x < code.Size && code.Black(x, y) {
				x++
			}
			// One rectangle for each run of dark modules.
			if x > start {
				fmt.Fprintf(&b, "M%d %dh%dv1h-%dz", start+qrMargin, y+qrMargin, x-start, x-start)
			}
		}
	}
	return b.String(), code.Size + 2*qrMargin, nil
}
