package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
)

// Registry is a kind of registry whose events are read, by the names that Argo CD's Image
// Updater has for them in the address.
type Registry string

// The kinds of registries.
const (
	DockerHub     Registry = "docker.io"
	GitHubPackage Registry = "ghcr.io"
	Harbor        Registry = "harbor"
	Quay          Registry = "quay.io"
	AliyunACR     Registry = "aliyun-acr"
	AzureACR      Registry = "acr"
	// GoogleArtifact sends its events, and those of GCR, by a push subscription of Pub/Sub.
	GoogleArtifact Registry = "artifact-registry"
	// CloudEvents are those that EventBridge makes of the events of ECR.
	CloudEvents Registry = "cloudevents"
)

// Registries lists the kinds of registries.
func Registries() []Registry { return slices.Sorted(maps.Keys(registryParsers())) }

// maxRegistryBytes bounds an event of a registry.
const maxRegistryBytes = 1 << 20

// errRegistry is the error of an event without an image.
var errRegistry = errors.New("the event names no image that was pushed")

// imagePattern is the name of an image with its registry.
var imagePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9.:-]*/[a-z0-9._/-]{1,255}$`)

// AuthenticateRegistry checks that the sender of an event has the secret: GitHub signs the
// body, Harbor and EventBridge send it in a header, and the others in the address.
func AuthenticateRegistry(of Registry, r *http.Request, body []byte, secrets []string) error {
	if len(secrets) == 0 {
		return errNoSecret
	}
	sent := r.URL.Query().Get("secret")
	switch {
	case of == Harbor:
		sent = r.Header.Get("Authorization")
	case of == CloudEvents && sent == "":
		sent = r.Header.Get("X-Webhook-Secret")
	}
	fits := false
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		if of == GitHubPackage {
			signature, err := signatureOf(GitHub, r.Header)
			if err != nil {
				return err
			}
			mac := hmac.New(sha256.New, []byte(secret))
			mac.Write(body)
			fits = hmac.Equal(mac.Sum(nil), signature) || fits
			continue
		}
		x, y := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(secret))
		fits = subtle.ConstantTimeCompare(x[:], y[:]) == 1 || fits
	}
	if !fits {
		return errSignature
	}
	return nil
}

// registryOf is the kind of registry that an address names; empty for those of Git hosts.
func registryOf(query url.Values) Registry { return Registry(query.Get("type")) }
