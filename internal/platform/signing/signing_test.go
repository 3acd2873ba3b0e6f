package signing_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"slipway.dev/slipway/internal/must"
	"slipway.dev/slipway/internal/platform/signing"
	"slipway.dev/slipway/internal/platform/store"
	"slipway.dev/slipway/internal/secret"
	"slipway.dev/slipway/internal/wire"
)

const keyText = "0123456789abcdef0123456789abcdef"

// clock is a time that a test moves.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func openStore(t *testing.T) *store.Store {
	t.Helper()
	database := must.Get(store.Open(t.Context(), store.Options{URL: "sqlite://" + filepath.Join(t.TempDir(), "p.db")}))(t)
	t.Cleanup(func() {
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	return database
}

func newSigner(t *testing.T, database *store.Store, at *clock) *signing.Signer {
	t.Helper()
	return must.Get(signing.New(t.Context(), database, secret.New(keyText), at.now))(t)
}

func mustSign(t *testing.T) func(token string, err error) string {
	return func(token string, err error) string {
		t.Helper()
		must.Do(t, err)
		return token
	}
}

// TestRuntimeAccess: an agent's token identifies it for ten minutes.
func TestRuntimeAccess(t *testing.T) {
	at := &clock{time.Now()}
	signer := newSigner(t, openStore(t), at)
	runtime := store.Runtime{ID: "r1", AccountID: "a1", Name: "prod"}
	token, expires, err := signer.RuntimeAccess(runtime, 7)
	must.Do(t, err)
	got, err := signer.VerifyRuntimeAccess(t.Context(), token)
	want := signing.RuntimeIdentity{RuntimeID: "r1", AccountID: "a1", Name: "prod", Generation: 7, Expires: expires.UTC()}
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	at.at = expires.Add(-time.Second)
	if _, err := signer.VerifyRuntimeAccess(t.Context(), token); err != nil {
		t.Errorf("a second before its end: %v", err)
	}
	at.at = expires
	if _, err := signer.VerifyRuntimeAccess(t.Context(), token); !errors.Is(err, signing.ErrToken) {
		t.Errorf("at its end: %v", err)
	}
}

// TestKindsAreApart: a token of one purpose is not good for another, however it is
// signed.
func TestKindsAreApart(t *testing.T) {
	signer := newSigner(t, openStore(t), &clock{time.Now()})
	access, _, err := signer.RuntimeAccess(store.Runtime{ID: "r1", AccountID: "a1"}, 1)
	must.Do(t, err)
	peer := mustSign(t)(signer.Peer("p1"))
	request := mustSign(t)(signer.Request(wire.RuntimeClaims{RuntimeID: "r1", UserID: "r1", Prefix: wire.AppProxyPath}))
	if id, err := signer.VerifyPeer(peer); err != nil || id != "p1" {
		t.Errorf("peer: %q, %v", id, err)
	}
	for name, token := range map[string]string{"access": access, "request": request, "empty": "", "long": strings.Repeat("a", 9000)} {
		if _, err := signer.VerifyPeer(token); !errors.Is(err, signing.ErrToken) {
			t.Errorf("%s as a peer's: %v", name, err)
		}
	}
	for name, token := range map[string]string{"peer": peer, "request": request, "none": unsigned(access), "other": resigned(t, access), "cut": access[:len(access)-3]} {
		if _, err := signer.VerifyRuntimeAccess(t.Context(), token); !errors.Is(err, signing.ErrToken) {
			t.Errorf("%s as an access token: %v", name, err)
		}
	}
}

// unsigned is the token with alg none.
func unsigned(token string) string {
	parts := strings.Split(token, ".")
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"slipway-access+jwt"}`))
	return header + "." + parts[1] + "."
}

// resigned is the token with the same header, signed with another key.
func resigned(t *testing.T, token string) string {
	t.Helper()
	parts := strings.Split(token, ".")
	_, private, err := ed25519.GenerateKey(nil)
	must.Do(t, err)
	signature := ed25519.Sign(private, []byte(parts[0]+"."+parts[1]))
	return parts[0] + "." + parts[1] + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// TestRequest: a runtime can check a request with the published keys, and the token
// lasts for a minute.
func TestRequest(t *testing.T) {
	at := &clock{time.Now()}
	signer := newSigner(t, openStore(t), at)
	token := mustSign(t)(signer.Request(wire.RuntimeClaims{RuntimeID: "r1", Prefix: wire.AppProxyPath, Role: "operator", ExpiresAt: 1 << 40}))
	var keys jose.JSONWebKeySet
	if err := json.Unmarshal([]byte(signer.PublicKeys()), &keys); err != nil || len(keys.Keys) != 1 || !keys.Keys[0].IsPublic() {
		t.Fatalf("%v in %s", err, signer.PublicKeys())
	}
	parsed := must.Get(jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA}))(t)
	payload := must.Get(parsed.Verify(keys.Key(parsed.Signatures[0].Protected.KeyID)[0]))(t)
	var claims wire.RuntimeClaims
	must.Do(t, json.Unmarshal(payload, &claims))
	if claims.RuntimeID != "r1" || claims.Role != "operator" || claims.ID == "" || claims.ExpiresAt-claims.IssuedAt != 60 || claims.IssuedAt != at.at.Unix() {
		t.Errorf("got %+v", claims)
	}
	if _, err := signer.Request(wire.RuntimeClaims{Prefix: wire.AppProxyPath}); err == nil {
		t.Error("a token for any runtime was signed")
	}
}

// TestRotation: a new key is published for an hour before it signs, old tokens stay
// valid, and keys that are over are removed.
func TestRotation(t *testing.T) {
	at := &clock{time.Now()}
	database := openStore(t)
	signer := newSigner(t, database, at)
	first := mustSign(t)(signer.Peer("p"))
	at.at = at.at.Add(31 * 24 * time.Hour)
	if created, err := signer.Maintain(t.Context()); err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	expectKeys(t, signer, 2)
	if kid(t, mustSign(t)(signer.Peer("p"))) != kid(t, first) {
		t.Error("a key signs that runtimes cannot know yet")
	}
	at.at = at.at.Add(time.Hour)
	second := mustSign(t)(signer.Peer("p"))
	if kid(t, second) == kid(t, first) {
		t.Error("the new key does not sign")
	}
	other := newSigner(t, database, at)
	if _, err := other.VerifyPeer(second); err != nil {
		t.Errorf("another replica: %v", err)
	}
	at.at = at.at.Add(15 * 24 * time.Hour)
	if created, err := signer.Maintain(t.Context()); err != nil || created {
		t.Fatalf("created %v, %v", created, err)
	}
	expectKeys(t, signer, 1)
}

// TestRevoke: what a removed key signed is void at once, also on replicas that have
// not heard of the new one.
func TestRevoke(t *testing.T) {
	at := &clock{time.Now()}
	database := openStore(t)
	signer, other := newSigner(t, database, at), newSigner(t, database, at)
	old := mustSign(t)(signer.Peer("p"))
	must.Do(t, signer.Rotate(t.Context(), true))
	if _, err := signer.VerifyPeer(old); !errors.Is(err, signing.ErrToken) {
		t.Errorf("a revoked key: %v", err)
	}
	if _, err := other.VerifyPeer(mustSign(t)(signer.Peer("p"))); err != nil {
		t.Errorf("the new key on another replica: %v", err)
	}
	if _, err := other.VerifyPeer(old); !errors.Is(err, signing.ErrToken) {
		t.Errorf("the old key on another replica: %v", err)
	}
}

// TestKeysAreEncrypted: the store has nothing that signs, another key file opens
// nothing, and two entries cannot be exchanged.
func TestKeysAreEncrypted(t *testing.T) {
	at := &clock{time.Now()}
	database := openStore(t)
	newSigner(t, database, at)
	stored, err := database.SigningKeys(t.Context())
	if err != nil || len(stored) != 1 {
		t.Fatalf("%v, %v", stored, err)
	}
	if len(stored[0].Private) <= ed25519.SeedSize || bytes.Contains(stored[0].Private, []byte(keyText)) {
		t.Error("a key is stored as it is")
	}
	_, err = signing.New(t.Context(), database, secret.New(strings.ToUpper(keyText)), at.now)
	if err == nil || !strings.Contains(err.Error(), "--database.secretKeyFile") || strings.Contains(err.Error(), keyText) {
		t.Errorf("another key file: %v", err)
	}
	if _, err := signing.New(t.Context(), database, secret.New("short"), at.now); err == nil || !strings.Contains(err.Error(), "at least 32") {
		t.Errorf("a short key: %v", err)
	}
	moved := stored[0]
	moved.ID = "other"
	must.Do(t, errors.Join(database.DeleteSigningKey(t.Context(), stored[0].ID), database.AddSigningKey(t.Context(), moved)))
	if _, err := signing.New(t.Context(), database, secret.New(keyText), at.now); err == nil {
		t.Error("a key under another ID is taken")
	}
}

func expectKeys(t *testing.T, signer *signing.Signer, want int) {
	t.Helper()
	if got := strings.Count(signer.PublicKeys(), `"kid"`); got != want {
		t.Errorf("there are %d keys, want %d: %s", got, want, signer.PublicKeys())
	}
}

func kid(t *testing.T, token string) string {
	t.Helper()
	parsed := must.Get(jose.ParseSignedCompact(token, []jose.SignatureAlgorithm{jose.EdDSA}))(t)
	return parsed.Signatures[0].Protected.KeyID
}

// FuzzVerify looks for a token that was not signed here and is taken.
func FuzzVerify(f *testing.F) {
	database := must.Get(store.Open(context.Background(), store.Options{URL: "sqlite://" + filepath.Join(f.TempDir(), "p.db")}))(f)
	f.Cleanup(func() { _ = database.Close() })
	signer := must.Get(signing.New(context.Background(), database, secret.New(keyText), time.Now))(f)
	good := must.Get(signer.Peer("p"))(f)
	f.Add(good + "x")
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, token string) {
		if id, err := signer.VerifyPeer(token); err == nil && id != "p" {
			t.Errorf("%q is taken, for %q", token, id)
		}
	})
}
