package identity

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"time"

	"slipway.dev/slipway/internal/platform/store"
)

const (
	// deviceLife is how long a browser is known after it signed in.
	deviceLife = 30 * 24 * time.Hour
	// A device cookie is an ID, the seconds at which it expires, and a MAC.
	deviceIDBytes   = 16
	deviceHeadBytes = deviceIDBytes + 8
)

// newDevice returns the value of a device cookie: it proves that the browser
// has signed in as the user, so that wrong passwords of strangers do not keep
// it out (OWASP, "Slow Down Online Guessing Attacks with Device Cookies"). It
// does not authenticate.
func newDevice(user store.User, expires time.Time) string {
	head := make([]byte, deviceIDBytes, deviceHeadBytes)
	_, _ = rand.Read(head) // never fails, as its documentation says
	head = binary.BigEndian.AppendUint64(head, uint64(expires.Unix()))
	return base64.RawURLEncoding.EncodeToString(append(head, deviceMAC(user, head)...))
}

// deviceID returns the ID of a device cookie that is valid for the user;
// otherwise it is empty.
func deviceID(value string, user store.User, now time.Time) string {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(value)
	if err != nil || len(raw) != deviceHeadBytes+sha256.Size || user.PasswordHash == "" {
		return ""
	}
	head, mac := raw[:deviceHeadBytes], raw[deviceHeadBytes:]
	expires := int64(binary.BigEndian.Uint64(head[deviceIDBytes:]))
	if !hmac.Equal(mac, deviceMAC(user, head)) || now.Unix() >= expires {
		return ""
	}
	return hex.EncodeToString(head[:deviceIDBytes])
}

// deviceMAC authenticates the head of a device cookie. The key is the stored
// password hash, whose salt is secret and random: replicas share it, cookies
// of other users do not fit, and a new password ends all cookies of the user.
func deviceMAC(user store.User, head []byte) []byte {
	mac := hmac.New(sha256.New, []byte(passwordHash(user.PasswordHash)))
	mac.Write([]byte("slipway device\n" + user.ID + "\n"))
	mac.Write(head)
	return mac.Sum(nil)
}

// setSignInCookies adds the cookies of a sign-in with a password to a
// response: the session and the device.
func (i *Identity) setSignInCookies(header http.Header, opened openedSession) {
	device := newDevice(opened.user, i.now().Add(deviceLife))
	header.Add("Set-Cookie", opened.cookie.String())
	header.Add("Set-Cookie", i.cookies.cookie(i.cookies.device, device, deviceLife).String())
}
