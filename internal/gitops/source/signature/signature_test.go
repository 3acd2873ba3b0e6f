package signature_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"slipway.dev/slipway/internal/gitops/source/signature"
	"slipway.dev/slipway/internal/must"
)

const unsigned = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\nauthor A <a@example.com> 1760000000 +0000\ncommitter A <a@example.com> 1760000000 +0000\n\nfirst line\n\nsecond\n"

// newKey makes a key; one with a lifetime expires after it.
func newKey(t testing.TB, config *packet.Config) *openpgp.Entity {
	t.Helper()
	return must.Get(openpgp.NewEntity("A", "", "a@example.com", config))(t)
}

// public is a key as it is in the ConfigMap.
func public(t testing.TB, key *openpgp.Entity) string {
	t.Helper()
	var text bytes.Buffer
	writer := must.Get(armor.Encode(&text, openpgp.PublicKeyType, nil))(t)
	must.Do(t, key.Serialize(writer))
	must.Do(t, writer.Close())
	return text.String()
}

// sign is a commit with the header that Git writes.
func sign(t testing.TB, key *openpgp.Entity, commit string, config *packet.Config) string {
	t.Helper()
	var text bytes.Buffer
	must.Do(t, openpgp.ArmoredDetachSign(&text, key, strings.NewReader(commit), config))
	head, message, _ := strings.Cut(commit, "\n\n")
	return head + "\ngpgsig " + strings.ReplaceAll(strings.TrimSpace(text.String()), "\n", "\n ") + "\n\n" + message
}

// TestVerify: a commit passes with a signature of a listed key that is known and valid,
// and with nothing else.
func TestVerify(t *testing.T) {
	known, listed, stranger := newKey(t, nil), newKey(t, nil), newKey(t, nil)
	past := time.Now().Add(-48 * time.Hour)
	expired := newKey(t, &packet.Config{Time: func() time.Time { return past }, KeyLifetimeSecs: 3600})
	revoked := newKey(t, nil)
	atRevocation := sign(t, revoked, unsigned, nil)
	must.Do(t, revoked.RevokeKey(packet.KeyCompromised, "", nil))
	ring, problems := signature.Read(map[string]string{
		"a": public(t, known), "b": public(t, listed), "c": public(t, expired), "d": public(t, revoked), "broken": "text",
	})
	if len(problems) != 1 || !strings.HasPrefix(problems[0], "broken: ") {
		t.Errorf("problems are %q", problems)
	}
	var allowed []string
	for _, key := range []*openpgp.Entity{listed, expired, revoked, stranger} {
		allowed = append(allowed, signature.KeyID(fmt.Sprintf("%x", key.PrimaryKey.Fingerprint)))
	}
	good := sign(t, listed, unsigned, nil)
	for name, tt := range map[string]struct{ commit, problem string }{
		"listed":               {good, ""},
		"unsigned":             {unsigned, "is not signed"},
		"other message":        {strings.Replace(good, "second", "secret", 1), "no valid signature"},
		"other tree":           {strings.Replace(good, "4b825", "4b826", 1), "no valid signature"},
		"added header":         {strings.Replace(good, "\ngpgsig", "\nencoding x\ngpgsig", 1), "no valid signature"},
		"known and not listed": {sign(t, known, unsigned, nil), "none of these keys"},
		"listed and not known": {sign(t, stranger, unsigned, nil), "no valid signature of a key in the ConfigMap"},
		"expired key":          {sign(t, expired, unsigned, &packet.Config{Time: func() time.Time { return past.Add(time.Minute) }}), "not valid any more"},
		"revoked key":          {atRevocation, "not valid any more"},
		"twice":                {sign(t, listed, good, nil), "several signatures"},
		"SSH":                  {strings.ReplaceAll(good, "PGP", "SSH"), "no signature of OpenPGP"},
		"too long":             {strings.Replace(good, "\n\n", "\n "+strings.Repeat("x", 70<<10)+"\n\n", 1), "more than"},
		"empty":                {"", "is not signed"},
		"signature in message": {unsigned + good[strings.Index(good, "gpgsig"):], "is not signed"},
	} {
		err := ring.Verify(tt.commit, allowed)
		if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var none *signature.Keyring
	if none.Verify(good, allowed) == nil || ring.Verify(good, nil) == nil {
		t.Error("it passes without keys")
	}
}

// signTag is a tag with the signature that Git writes.
func signTag(t testing.TB, key *openpgp.Entity, tag string) string {
	t.Helper()
	var text bytes.Buffer
	must.Do(t, openpgp.ArmoredDetachSign(&text, key, strings.NewReader(tag), nil))
	return tag + text.String() + "\n"
}

const (
	commitID = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
	aTag     = "object " + commitID + "\ntype commit\ntag v1\ntagger A <a@example.com> 1760000000 +0000\n\nfirst line\n"
)

// TestVerifyTag: a tag passes with a signature of a listed key over all before it, for the
// commit that it names.
func TestVerifyTag(t *testing.T) {
	listed, known := newKey(t, nil), newKey(t, nil)
	ring, _ := signature.Read(map[string]string{"a": public(t, listed), "b": public(t, known)})
	good := signTag(t, listed, aTag)
	allowed := []string{listed.PrimaryKey.KeyIdString()}
	for name, tt := range map[string]struct{ tag, commit, problem string }{
		"listed":               {good, commitID, ""},
		"signed again":         {signTag(t, listed, signTag(t, known, aTag)), commitID, ""},
		"another commit":       {good, strings.Repeat("a", 40), "of another object"},
		"a tag of a tag":       {signTag(t, listed, strings.Replace(aTag, "type commit", "type tag", 1)), commitID, "of another object"},
		"unsigned":             {aTag, commitID, "not signed"},
		"other message":        {strings.Replace(good, "first", "other", 1), commitID, "no valid signature"},
		"known and not listed": {signTag(t, known, aTag), commitID, "none of these keys"},
		"too long":             {good + strings.Repeat("x", 70<<10), commitID, "not signed"},
		"empty":                {"", commitID, "of another object"},
	} {
		err := ring.VerifyTag(tt.tag, tt.commit, allowed)
		if (err == nil) != (tt.problem == "") || err != nil && !strings.Contains(err.Error(), tt.problem) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzVerifyTag: no tag panics, and none passes that no key has signed.
func FuzzVerifyTag(f *testing.F) {
	key := newKey(f, nil)
	ring, _ := signature.Read(map[string]string{"a": public(f, newKey(f, nil))})
	f.Add(signTag(f, key, aTag))
	f.Add(aTag)
	f.Fuzz(func(t *testing.T, tag string) {
		if ring.VerifyTag(tag, commitID, []string{key.PrimaryKey.KeyIdString()}) == nil {
			t.Error("it passes")
		}
	})
}

// TestKeyID: ids and fingerprints have one form.
func TestKeyID(t *testing.T) {
	for text, want := range map[string]string{
		"4aee18f83afdeb23": "4AEE18F83AFDEB23", "0x4AEE18F83AFDEB23": "4AEE18F83AFDEB23", "5DE3E0509C47EA3CF04A42D34AEE18F83AFDEB23": "4AEE18F83AFDEB23",
		"": "", "3AFDEB23": "", "4AEE18F83AFDEB2G": "", "4AEE 18F8 3AFD EB23": "",
	} {
		if got := signature.KeyID(text); got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
}

// FuzzVerify: no commit panics, and none passes that no key has signed.
func FuzzVerify(f *testing.F) {
	key := newKey(f, nil)
	ring, _ := signature.Read(map[string]string{"a": public(f, newKey(f, nil))})
	allowed := []string{key.PrimaryKey.KeyIdString()}
	f.Add(sign(f, key, unsigned, nil))
	f.Add(unsigned)
	f.Add("gpgsig -----BEGIN PGP SIGNATURE-----\n \n -----END PGP SIGNATURE-----\n\n")
	f.Fuzz(func(t *testing.T, commit string) {
		if ring.Verify(commit, allowed) == nil {
			t.Error("it passes")
		}
	})
}
