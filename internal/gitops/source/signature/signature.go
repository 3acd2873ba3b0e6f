// Package signature verifies the OpenPGP signatures of Git commits and annotated tags against
// the keys that an installation of Argo CD has in the ConfigMap argocd-gpg-keys-cm.
//
// It promises that a commit or tag passes only if everything in it but the signature is what
// one of the named keys signed, with a key that was neither revoked nor expired and a
// hash that is not broken. What it cannot read does not pass.
//
// It refuses signatures of other kinds, such as those of SSH keys, and commits with
// several signatures.
//
// See decision 0092 in docs/decisions: a commit is verified by itself or by a tag of it.
package signature

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ProtonMail/go-crypto/openpgp"
)

// ConfigMap has the keys, in the control namespace: armoured public keys by their ids.
const ConfigMap = "argocd-gpg-keys-cm"

// maxSignature bounds the signature of a commit, which anyone may have written.
const maxSignature = 64 << 10

// armorHeader begins a signature of OpenPGP.
const armorHeader = "-----BEGIN PGP SIGNATURE-----"

// Keyring is the keys that are known. It is immutable; nil has none.
type Keyring struct{ keys openpgp.EntityList }

// Read reads the data of the ConfigMap. Problems are keys that cannot be read, which
// sign nothing.
func Read(data map[string]string) (ring *Keyring, problems []string) {
	ring = &Keyring{}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		read, err := openpgp.ReadArmoredKeyRing(strings.NewReader(data[name]))
		if err != nil {
			problems = append(problems, name+": it is no armoured public key: write the output of gpg --armor --export")
			continue
		}
		ring.keys = append(ring.keys, read...)
	}
	return ring, problems
}

// KeyID is the long id of a key, in capitals, of an id or a fingerprint; empty for text
// that is neither.
func KeyID(text string) string {
	text = strings.ToUpper(strings.TrimPrefix(strings.TrimPrefix(text, "0x"), "0X"))
	if strings.Trim(text, "0123456789ABCDEF") != "" || len(text) != 16 && len(text) != 40 {
		return ""
	}
	return text[len(text)-16:]
}

// Verify returns why a commit, as Git stores it, is not signed by one of the keys, which
// are ids of primary keys or of the keys that sign for them. The error continues a
// sentence that begins with the commit.
func (k *Keyring) Verify(commit string, allowed []string) error {
	payload, signature, err := split(commit)
	if err != nil {
		return err
	}
	return k.verify(payload, signature, allowed)
}

// VerifyTag returns why a tag, as Git stores it, is no tag of a commit that is signed by one of
// the keys.
func (k *Keyring) VerifyTag(tag, commit string, allowed []string) error {
	if !strings.HasPrefix(tag, "object "+commit+"\ntype commit\n") {
		return errors.New("is named by a tag of another object")
	}
	// As in Git the signature is the last one, and signs all before it.
	at := strings.LastIndex(tag, "\n"+armorHeader)
	if at < 0 || len(tag)-at > maxSignature {
		return errors.New("has a tag that is not signed with gpg")
	}
	return k.verify(tag[:at+1], tag[at+1:], allowed)
}

// verify returns why a text has no valid signature of one of the keys.
func (k *Keyring) verify(payload, signature string, allowed []string) error {
	var keys openpgp.EntityList
	if k != nil {
		keys = k.keys
	}
	body := strings.NewReader(signature)
	signer, err := openpgp.CheckArmoredDetachedSignature(keys, strings.NewReader(payload), body, nil)
	switch {
	case signer == nil:
		return fmt.Errorf("has no valid signature of a key in the ConfigMap %s (%w): add the key there, or sign the commit with another", ConfigMap, orUnknown(err))
	case err != nil:
		return fmt.Errorf("has a signature that is not valid any more (%w): sign the revision with a key that is neither expired nor revoked", err)
	}
	// Only keys that sign are compared: others of the owner have not signed this.
	ids := []string{signer.PrimaryKey.KeyIdString()}
	for _, other := range signer.Subkeys {
		if other.Sig != nil && other.Sig.FlagsValid && other.Sig.FlagSign {
			ids = append(ids, other.PublicKey.KeyIdString())
		}
	}
	for _, id := range ids {
		if slices.Contains(allowed, id) {
			return nil
		}
	}
	return fmt.Errorf("is signed by the key %s, which is none of these keys: sign it with one of them, or add that key", ids[0])
}

// orUnknown is an error of the library; it has none for a key that is not there.
func orUnknown(err error) error {
	if err == nil {
		return errors.New("the key is not known")
	}
	return err
}

// split separates the signature of a commit from what it signs: the lines of the commit
// without those of the header gpgsig, whose further lines begin with a space.
func split(commit string) (payload, signature string, err error) {
	var signed, lines strings.Builder
	inside, found := false, false
	head, message, _ := strings.Cut(commit, "\n\n")
	for line := range strings.SplitSeq(head, "\n") {
		rest, begins := strings.CutPrefix(line, "gpgsig ")
		switch {
		case begins && found:
			return "", "", errors.New("has several signatures: sign it once")
		case begins:
			inside, found = true, true
			lines.WriteString(rest + "\n")
		case inside && strings.HasPrefix(line, " "):
			lines.WriteString(line[1:] + "\n")
		default:
			inside = false
			signed.WriteString(line + "\n")
		}
	}
	switch text := lines.String(); {
	case !found:
		return "", "", errors.New("is not signed: sign it with git commit -S")
	case len(text) > maxSignature:
		return "", "", fmt.Errorf("has a signature of more than %d bytes: sign it with one key", maxSignature)
	case !strings.HasPrefix(text, armorHeader):
		return "", "", errors.New("has no signature of OpenPGP: sign it with gpg, and not with a key of SSH or a certificate")
	default:
		return signed.String() + "\n" + message, text, nil
	}
}
