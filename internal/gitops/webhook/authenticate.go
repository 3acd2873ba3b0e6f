package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// The errors of authentication. They decide about the status of the response.
var (
	errNoSecret  = errors.New("no secret is set")
	errUnsigned  = errors.New("the request is not signed: give the webhook the secret that is set here")
	errSignature = errors.New("the signature does not fit: give the webhook the secret that is set here")
)

// Authenticate checks that the sender has one of the secrets, by a signature
// over the raw body or, for GitLab, by the secret itself. An empty secret
// matches nothing.
func Authenticate(provider Provider, header http.Header, body []byte, secrets []string) error {
	given := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		if secret != "" {
			given = append(given, secret)
		}
	}
	if len(given) == 0 {
		return fmt.Errorf("%w for webhooks of %s", errNoSecret, provider)
	}
	if provider == GitLab {
		return checkToken(header, given)
	}
	signature, err := signatureOf(provider, header)
	if err != nil {
		return err
	}
	fits := false
	for _, secret := range given {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		// All secrets are compared, so that the duration does not reveal which
		// one matches.
		fits = hmac.Equal(mac.Sum(nil), signature) || fits
	}
	if !fits {
		return errSignature
	}
	return nil
}

// checkToken compares hashes, so that the duration does not depend on the
// length of the token.
func checkToken(header http.Header, secrets []string) error {
	sent, err := single(header, "X-Gitlab-Token")
	if err != nil {
		return err
	}
	hash, fits := sha256.Sum256([]byte(sent)), 0
	for _, secret := range secrets {
		want := sha256.Sum256([]byte(secret))
		fits |= subtle.ConstantTimeCompare(hash[:], want[:])
	}
	if fits != 1 {
		return errSignature
	}
	return nil
}

// signatureOf is the HMAC-SHA256 that a request has in its header. The own
// header of Gitea goes before that of GitHub. SHA-1 signatures are never
// accepted.
func signatureOf(provider Provider, header http.Header) ([]byte, error) {
	name := "X-Hub-Signature-256"
	switch provider {
	case BitbucketCloud, BitbucketServer:
		name = "X-Hub-Signature"
	case Gitea:
		if header.Get("X-Gitea-Signature") != "" {
			text, err := single(header, "X-Gitea-Signature")
			if err != nil {
				return nil, err
			}
			return decodeSignature(text)
		}
	}
	text, err := single(header, name)
	if err != nil {
		return nil, err
	}
	digits, ok := strings.CutPrefix(text, "sha256=")
	if !ok {
		return nil, errors.New("the signature is not by SHA-256")
	}
	return decodeSignature(digits)
}

// decodeSignature reads a hexadecimal HMAC-SHA256.
func decodeSignature(text string) ([]byte, error) {
	signature, err := hex.DecodeString(text)
	if err != nil || len(signature) != sha256.Size {
		return nil, errors.New("the signature cannot be read")
	}
	return signature, nil
}

// single returns the only value of a header field. Several are refused: signer
// and verifier could use different ones.
func single(header http.Header, name string) (string, error) {
	switch values := header.Values(name); len(values) {
	case 0:
		return "", errUnsigned
	case 1:
		if values[0] == "" {
			return "", errUnsigned
		}
		return values[0], nil
	}
	return "", fmt.Errorf("there are several %s", name)
}
