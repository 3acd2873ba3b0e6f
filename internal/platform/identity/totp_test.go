package identity

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"rsc.io/qr"

	"slipway.dev/slipway/internal/secret"
)

// TOTPCode is the code that an authenticator app shows, for tests from outside.
func TOTPCode(t testing.TB, value string, at time.Time) string {
	t.Helper()
	key, err := base32Text.DecodeString(value)
	if err != nil {
		t.Fatal(err)
	}
	return totpCode(key, at.Unix()/30)
}

// The codes of RFC 6238, appendix B, with six digits.
func TestTOTPCode(t *testing.T) {
	key := []byte("12345678901234567890")
	for at, want := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		if got := totpCode(key, at/30); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
}

// A code is good for its step and the steps beside it.
func TestTOTPStep(t *testing.T) {
	value := secret.New(base32Text.EncodeToString([]byte("12345678901234567890")))
	now := time.Unix(1111111111, 0)
	current := now.Unix() / 30
	for offset, want := range map[int64]bool{-2: false, -1: true, 0: true, 1: true, 2: false} {
		code := totpCode([]byte("12345678901234567890"), current+offset)
		step, ok := totpStep(value, code[:3]+" "+code[3:], now)
		if ok != want || (ok && step != current+offset) {
			t.Errorf("the code of step %+d: %v, step %+d", offset, ok, step-current)
		}
	}
	for _, code := range []string{"", "50471", "0050471", "05047a", "050 47", "００５０４７１"} {
		if _, ok := totpStep(value, code, now); ok {
			t.Errorf("the code %q is accepted", code)
		}
	}
	if _, ok := totpStep(secret.New("not base32!"), "000000", now); ok {
		t.Error("a damaged secret accepts a code")
	}
	if a, b := newTOTPSecret(), newTOTPSecret(); len(a.Reveal()) != 32 || a.Reveal() == b.Reveal() {
		t.Error("secrets are not random")
	}
}

// Authenticator apps read the URI, with a user and an issuer of any form.
func TestTOTPURI(t *testing.T) {
	uri, err := url.Parse(totpURI("Slipway & Co", "a+b/c@example.com", secret.New("ABCDEFGH")))
	if err != nil {
		t.Fatal(err)
	}
	if uri.Scheme != "otpauth" || uri.Host != "totp" || uri.Path != "/Slipway & Co:a+b/c@example.com" {
		t.Errorf("the URI is %s", uri)
	}
	if query := uri.Query(); query.Get("secret") != "ABCDEFGH" || query.Get("issuer") != "Slipway & Co" || strings.Contains(uri.RawQuery, "+") {
		t.Errorf("the query is %s", uri.RawQuery)
	}
}

// The path draws exactly the dark modules of the QR code, inside the quiet zone.
func TestQRPath(t *testing.T) {
	text := totpURI("Slipway slipway.example.com", "somebody.with.a.long.name@department.example.com", newTOTPSecret())
	path, size, err := qrPath(text)
	if err != nil {
		t.Fatal(err)
	}
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		t.Fatal(err)
	}
	dark := make(map[[2]int]bool)
	for _, part := range strings.Split(strings.TrimSuffix(path, "z"), "z") {
		var x, y, width, back int
		if _, err := fmt.Sscanf(part, "M%d %dh%dv1h-%d", &x, &y, &width, &back); err != nil || width != back || width < 1 {
			t.Fatalf("%q: %v", part, err)
		}
		for n := range width {
			dark[[2]int{x + n, y}] = true
		}
	}
	for y := range size {
		for x := range size {
			if got, want := dark[[2]int{x, y}], code.Black(x-4, y-4); got != want {
				t.Fatalf("the module %d, %d is dark: %v, want %v", x, y, got, want)
			}
		}
	}
	if size != code.Size+8 {
		t.Errorf("the size is %d for %d modules", size, code.Size)
	}
	if _, _, err := qrPath(strings.Repeat("x", 5000)); err == nil {
		t.Error("a text that does not fit is encoded")
	}
}

// A recovery code is read with and without its dashes, and is good for its user
// only.
func TestRecoveryCode(t *testing.T) {
	codes, hashes := newRecoveryCodes("ann")
	seen := make(map[string]bool)
	for n, code := range codes {
		for _, spelling := range []string{code, strings.ToUpper(code), strings.ReplaceAll(code, "-", ""), " " + strings.ReplaceAll(code, "-", " ")} {
			parsed, ok := parseRecoveryCode(spelling)
			if !ok || string(recoveryHash("ann", parsed)) != string(hashes[n]) {
				t.Errorf("%q is not read", spelling)
			}
			if string(recoveryHash("bob", parsed)) == string(hashes[n]) {
				t.Error("it is good for another user")
			}
		}
		seen[code] = true
	}
	if len(seen) != 10 || len(hashes) != 10 {
		t.Errorf("%d codes", len(seen))
	}
	for _, text := range []string{"", "123456", codes[0] + "x", codes[0][1:]} {
		if _, ok := parseRecoveryCode(text); ok {
			t.Errorf("%q looks like a recovery code", text)
		}
	}
}
