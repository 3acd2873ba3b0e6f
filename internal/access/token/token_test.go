package token_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"slipway.dev/slipway/api/refusal"
	"slipway.dev/slipway/internal/access/token"
	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/wire"
)

// runtimeID is the runtime of the tests.
const runtimeID = "rt-1"

// begin is when the tests are.
func begin() time.Time { return time.Date(2030, 5, 6, 7, 8, 9, 0, time.UTC) }

// platform signs as the platform does.
type platform struct {
	private ed25519.PrivateKey
	id      string
}

func newPlatform(t testing.TB, id string) *platform {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must.Do(t, err)
	return &platform{private, id}
}

// keys are the public keys of some platforms.
func keys(t testing.TB, platforms ...*platform) string {
	t.Helper()
	set := jose.JSONWebKeySet{}
	for _, p := range platforms {
		set.Keys = append(set.Keys, jose.JSONWebKey{Key: p.private.Public(), KeyID: p.id, Algorithm: string(jose.EdDSA), Use: "sig"})
	}
	text, err := json.Marshal(set)
	must.Do(t, err)
	return string(text)
}

func (p *platform) sign(t testing.TB, claims any) string {
	t.Helper()
	return p.signAs(t, wire.RequestTokenType, claims)
}

// signAs signs a token of a type.
func (p *platform) signAs(t testing.TB, kind string, claims any) string {
	t.Helper()
	return sign(t, jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: p.private, KeyID: p.id}}, kind, claims)
}

func sign(t testing.TB, key jose.SigningKey, kind string, claims any) string {
	t.Helper()
	signer, err := jose.NewSigner(key, (&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
	must.Do(t, err)
	payload, err := json.Marshal(claims)
	must.Do(t, err)
	signed, err := signer.Sign(payload)
	must.Do(t, err)
	text, err := signed.CompactSerialize()
	must.Do(t, err)
	return text
}

// good are claims that are accepted.
func good() wire.RuntimeClaims {
	return wire.RuntimeClaims{
		Issuer: "https://platform.example", RuntimeID: runtimeID, UserID: "u1", Email: "ada@example.com", Role: "operator", AccountID: "a1",
		Prefix: wire.AppProxyPath, IssuedAt: begin().Unix(), ExpiresAt: begin().Add(time.Minute).Unix(), ID: rand.Text(),
	}
}

func with(change func(*wire.RuntimeClaims)) wire.RuntimeClaims {
	claims := good()
	change(&claims)
	return claims
}

func verifier(keys string) *token.Verifier {
	return token.NewVerifier(func() string { return runtimeID }, func() string { return keys }, begin)
}

// TestVerify: what is accepted, and every way in which a token can be wrong.
func TestVerify(t *testing.T) {
	p, other := newPlatform(t, "k1"), newPlatform(t, "k1")
	expired := func(by time.Duration) wire.RuntimeClaims {
		return with(func(c *wire.RuntimeClaims) {
			c.IssuedAt, c.ExpiresAt = begin().Add(-by-time.Minute).Unix(), begin().Add(-by).Unix()
		})
	}
	for _, c := range []struct {
		name, bearer string
		want         refusal.Reason
	}{
		{"good", p.sign(t, good()), ""},
		{"good, as a header", "Bearer " + p.sign(t, good()), ""},
		{"good, clocks differ a little", p.sign(t, expired(20*time.Second)), ""},
		{"the role of an older platform", p.sign(t, with(func(c *wire.RuntimeClaims) { c.Role = "user" })), ""},
		{"for workflows", p.sign(t, with(func(c *wire.RuntimeClaims) { c.Prefix = wire.WorkflowsPath })), ""},
		{"for Argo CD's API", p.sign(t, with(func(c *wire.RuntimeClaims) { c.Prefix = wire.ArgoCDPath })), ""},
		{"none", "", token.ReasonMissing},
		{"only the scheme", "Bearer ", token.ReasonMissing},
		{"garbage", "not.a.token", token.ReasonMalformed},
		{"too long", strings.Repeat("a", 9000), token.ReasonMalformed},
		{"expired", p.sign(t, expired(time.Minute)), token.ReasonExpired},
		{"of the future", p.sign(t, with(func(c *wire.RuntimeClaims) {
			c.IssuedAt, c.ExpiresAt = begin().Add(time.Minute).Unix(), begin().Add(2*time.Minute).Unix()
		})), token.ReasonEarly},
		{"lives too long", p.sign(t, with(func(c *wire.RuntimeClaims) { c.ExpiresAt = begin().Add(time.Hour).Unix() })), token.ReasonLifetime},
		{"without times", p.sign(t, with(func(c *wire.RuntimeClaims) { c.IssuedAt, c.ExpiresAt = 0, 0 })), token.ReasonLifetime},
		{"another runtime", p.sign(t, with(func(c *wire.RuntimeClaims) { c.RuntimeID = "rt-2" })), token.ReasonAudience},
		{"several runtimes", p.sign(t, map[string]any{"aud": []string{runtimeID, "rt-2"}}), token.ReasonClaims},
		{"no role", p.sign(t, with(func(c *wire.RuntimeClaims) { c.Role = "" })), token.ReasonClaims},
		{"unknown role", p.sign(t, with(func(c *wire.RuntimeClaims) { c.Role = "root" })), token.ReasonClaims},
		{"no prefix", p.sign(t, with(func(c *wire.RuntimeClaims) { c.Prefix = "" })), token.ReasonPrefix},
		{"prefix of everything", p.sign(t, with(func(c *wire.RuntimeClaims) { c.Prefix = "/" })), token.ReasonPrefix},
		{"an access token of this runtime", p.signAs(t, "slipway-access+jwt", good()), token.ReasonType},
		{"no type", p.signAs(t, "", good()), token.ReasonType},
		{"no ID", p.sign(t, with(func(c *wire.RuntimeClaims) { c.ID = "" })), token.ReasonClaims},
		{"long ID", p.sign(t, with(func(c *wire.RuntimeClaims) { c.ID = strings.Repeat("x", 65) })), token.ReasonClaims},
		{"another key of the same name", other.sign(t, good()), token.ReasonSignature},
		{"tampered claims", tampered(t, p.sign(t, good())), token.ReasonSignature},
		{"tampered signature", flipped(p.sign(t, good())), token.ReasonSignature},
		{"alg none", unsigned(t, good()), token.ReasonMalformed},
		{"RSA", rsaSigned(t, good()), token.ReasonMalformed},
		{"HMAC with the public key", hmacSigned(t, p, good()), token.ReasonMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			claims, err := verifier(keys(t, p)).Verify(t.Context(), c.bearer)
			if c.want == "" {
				if err != nil || claims.Email != "ada@example.com" || claims.Role != "operator" {
					t.Fatalf("got %+v, %v", claims, err)
				}
				return
			}
			var refused *refusal.Refusal
			if !errors.As(err, &refused) || refused.Reason != c.want {
				t.Fatalf("got %v, wanted %s", err, c.want)
			}
			if !reflect.DeepEqual(claims, wire.RuntimeClaims{}) {
				t.Errorf("a refused token gave claims: %+v", claims)
			}
			if c.bearer != "" && len(c.bearer) > 20 && strings.Contains(err.Error(), c.bearer[len(c.bearer)-20:]) {
				t.Errorf("the error has a part of the token: %v", err)
			}
		})
	}
}

// tampered has other claims under the signature.
func tampered(t *testing.T, bearer string) string {
	t.Helper()
	parts := strings.Split(bearer, ".")
	payload, err := json.Marshal(with(func(c *wire.RuntimeClaims) { c.Role = "admin" }))
	must.Do(t, err)
	parts[1] = base64.RawURLEncoding.EncodeToString(payload)
	return strings.Join(parts, ".")
}

// flipped has another first byte of the signature.
func flipped(bearer string) string {
	at := strings.LastIndexByte(bearer, '.') + 1
	other := byte('A')
	if bearer[at] == other {
		other = 'B'
	}
	return bearer[:at] + string(other) + bearer[at+1:]
}

func unsigned(t *testing.T, claims any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	must.Do(t, err)
	return base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
}

func rsaSigned(t *testing.T, claims any) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must.Do(t, err)
	return sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: key}, wire.RequestTokenType, claims)
}

func hmacSigned(t *testing.T, p *platform, claims any) string {
	t.Helper()
	return sign(t, jose.SigningKey{Algorithm: jose.HS256, Key: []byte(p.private.Public().(ed25519.PublicKey))}, wire.RequestTokenType, claims)
}

// TestReplay: a token is good for one request, as long as it could be valid; one
// that was refused is not used up.
func TestReplay(t *testing.T) {
	p := newPlatform(t, "k1")
	now := begin()
	v := token.NewVerifier(func() string { return runtimeID }, func() string { return keys(t, p) }, func() time.Time { return now })
	reason := func(bearer string) refusal.Reason {
		_, err := v.Verify(t.Context(), bearer)
		var refused *refusal.Refusal
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if refused == nil {
			return ""
		}
		return refused.Reason
	}
	// From a platform whose clock is ahead: the earliest use of the longest life.
	stolen := p.sign(t, with(func(c *wire.RuntimeClaims) {
		c.IssuedAt, c.ExpiresAt = begin().Add(30*time.Second).Unix(), begin().Add(90*time.Second).Unix()
	}))
	for _, step := range []struct {
		after  time.Duration
		bearer string
		want   refusal.Reason
	}{
		{0, stolen, ""},
		{0, stolen, token.ReasonReplay},
		{0, p.sign(t, good()), ""}, // another one of the same second
		{time.Minute, "Bearer " + stolen, token.ReasonReplay},
		{119 * time.Second, stolen, token.ReasonReplay},
		{120 * time.Second, stolen, token.ReasonReplay},
		{121 * time.Second, stolen, token.ReasonExpired},
	} {
		now = begin().Add(step.after)
		if got := reason(step.bearer); got != step.want {
			t.Errorf("after %v: %q, want %q", step.after, got, step.want)
		}
	}
	now = begin()
	early := p.sign(t, with(func(c *wire.RuntimeClaims) {
		c.IssuedAt, c.ExpiresAt = begin().Add(40*time.Second).Unix(), begin().Add(100*time.Second).Unix()
	}))
	if got := reason(early); got != token.ReasonEarly {
		t.Errorf("early: %q", got)
	}
	now = begin().Add(40 * time.Second)
	if got := reason(early); got != "" {
		t.Errorf("in time: %q", got)
	}
}

// TestKeysChange: keys that overlap are both good, and one that is gone is not.
func TestKeysChange(t *testing.T) {
	old, fresh := newPlatform(t, "old"), newPlatform(t, "new")
	known := keys(t, old)
	v := token.NewVerifier(func() string { return runtimeID }, func() string { return known }, begin)
	accepted := func(p *platform) bool {
		_, err := v.Verify(t.Context(), p.sign(t, good()))
		return err == nil
	}
	if !accepted(old) || accepted(fresh) {
		t.Error("before the change")
	}
	known = keys(t, old, fresh)
	if !accepted(old) || !accepted(fresh) {
		t.Error("during the change")
	}
	known = keys(t, fresh)
	if accepted(old) || !accepted(fresh) {
		t.Error("after the change")
	}
	for _, nothing := range []string{"", "{", `{"keys":[]}`, strings.Repeat(" ", 70<<10) + keys(t, fresh)} {
		known = nothing
		if accepted(fresh) {
			t.Errorf("without keys: %.20q", nothing)
		}
	}
}

// TestNotJoined: a runtime that has not joined rejects all requests.
func TestNotJoined(t *testing.T) {
	p := newPlatform(t, "k1")
	v := token.NewVerifier(func() string { return "" }, func() string { return keys(t, p) }, begin)
	var refused *refusal.Refusal
	_, err := v.Verify(t.Context(), p.sign(t, with(func(c *wire.RuntimeClaims) { c.RuntimeID = "" })))
	if !errors.As(err, &refused) || refused.Reason != token.ReasonNotJoined {
		t.Errorf("got %v", err)
	}
}

// FuzzVerify: nothing that is not signed is accepted, and nothing panics.
func FuzzVerify(f *testing.F) {
	p := newPlatform(f, "k1")
	known := keys(f, p)
	valid := p.sign(f, good())
	f.Add(valid, known)
	f.Add("Bearer a.b.c", known)
	f.Add(valid, `{"keys":[{"kty":"OKP","crv":"Ed25519","x":""}]}`)
	f.Fuzz(func(t *testing.T, bearer, set string) {
		if _, err := verifier(set).Verify(t.Context(), bearer); err == nil && !strings.Contains(bearer, valid[:20]) {
			t.Errorf("%q was accepted with %q", bearer, set)
		}
	})
}
