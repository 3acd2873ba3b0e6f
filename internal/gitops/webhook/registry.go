package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
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
)

// Registries lists the kinds of registries.
func Registries() []Registry { return []Registry{DockerHub, GitHubPackage, Harbor, Quay} }

// maxRegistryBytes bounds an event of a registry.
const maxRegistryBytes = 1 << 20

// errRegistry is the error of an event without an image.
var errRegistry = errors.New("the event names no image that was pushed")

// imagePattern is the name of an image with its registry.
var imagePattern = regexp.MustCompile(`^[a-z0-9][a-z0-9.:-]*/[a-z0-9._/-]{1,255}$`)

// AuthenticateRegistry checks that the sender of an event has the secret: GitHub signs the
// body, Harbor sends it in a header, and the others in the address.
func AuthenticateRegistry(of Registry, r *http.Request, body []byte, secrets []string) error {
	if len(secrets) == 0 {
		return errNoSecret
	}
	sent := r.URL.Query().Get("secret")
	if of == Harbor {
		sent = r.Header.Get("Authorization")
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

// registryEvent has the fields of all kinds of registries.
type registryEvent struct {
	// Docker Hub and Quay.
	Repository json.RawMessage `json:"repository"`
	DockerURL  string          `json:"docker_url"`
	// GitHub.
	Action  string `json:"action"`
	Package *struct {
		Name        string `json:"name"`
		Namespace   string `json:"namespace"`
		PackageType string `json:"package_type"`
	} `json:"package"`
	// Harbor.
	Type      string `json:"type"`
	EventData struct {
		Resources []struct {
			ResourceURL string `json:"resource_url"`
		} `json:"resources"`
	} `json:"event_data"`
}

// ParseRegistry returns the image that was pushed, as registry/repository. An event of
// another kind is an empty name.
func ParseRegistry(of Registry, body []byte) (string, error) {
	var event registryEvent
	if err := json.Unmarshal(body, &event); err != nil {
		return "", errors.New("the body is no event of a registry")
	}
	name := ""
	switch of {
	case DockerHub:
		var repository struct {
			RepoName string `json:"repo_name"`
		}
		if json.Unmarshal(event.Repository, &repository) != nil || repository.RepoName == "" {
			return "", errRegistry
		}
		name = "docker.io/" + repository.RepoName
	case Quay:
		if name = event.DockerURL; name == "" {
			return "", errRegistry
		}
	case GitHubPackage:
		switch {
		case event.Package == nil:
			return "", nil
		case !strings.EqualFold(event.Package.PackageType, "container") || event.Action != "published" && event.Action != "updated":
			return "", nil
		}
		name = "ghcr.io/" + event.Package.Namespace + "/" + event.Package.Name
	case Harbor:
		if event.Type != "PUSH_ARTIFACT" || len(event.EventData.Resources) == 0 {
			return "", nil
		}
		name = withoutTag(event.EventData.Resources[0].ResourceURL)
	}
	if name = strings.ToLower(name); !imagePattern.MatchString(name) {
		return "", errRegistry
	}
	return name, nil
}

// withoutTag removes the tag or digest of a reference.
func withoutTag(reference string) string {
	reference, _, _ = strings.Cut(reference, "@")
	if at := strings.LastIndexByte(reference, ':'); at >= 0 && !strings.Contains(reference[at:], "/") {
		reference = reference[:at]
	}
	return reference
}

// registryOf is the kind of registry that an address names; empty for those of Git hosts.
func registryOf(query url.Values) Registry { return Registry(query.Get("type")) }
