package strategy

import (
	"errors"
	"regexp"
	"strings"
)

// Image is the name of an image as people write it, in its parts.
type Image struct {
	// Registry is the host, docker.io where none is written.
	Registry string
	// Repository is the path, with library/ for the official images of Docker Hub.
	Repository string
	// Written is the name as it was written, without tag and digest: what is
	// written back to files.
	Written string
	// Tag and Digest may be empty.
	Tag, Digest string
}

// DockerHub is the registry of names without one.
const DockerHub = "docker.io"

// maxNameBytes bounds a reference.
const maxNameBytes = 512

var (
	repositoryPattern = regexp.MustCompile(`^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$`)
	hostPattern       = regexp.MustCompile(`^(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?$`)
	tagPattern        = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	digestPattern     = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)
)

// errName is the error of a name that is none.
var errName = errors.New("is not the name of an image, such as registry.example.com/team/app")

// ParseImage reads the name of an image. The part after the colon is taken as it
// is: in a list of images it is a constraint and no tag.
func ParseImage(text string) (Image, error) {
	if text == "" || len(text) > maxNameBytes {
		return Image{}, errName
	}
	name, digest, _ := strings.Cut(text, "@")
	name, tag := cutTag(name)
	image := Image{Registry: DockerHub, Repository: name, Written: name, Tag: tag, Digest: digest}
	if host, rest, found := strings.Cut(name, "/"); found && isHost(host) {
		image.Registry, image.Repository = strings.ToLower(host), rest
	}
	if image.Registry == "index.docker.io" || image.Registry == "registry-1.docker.io" {
		image.Registry = DockerHub
	}
	if image.Registry == DockerHub && !strings.Contains(image.Repository, "/") {
		image.Repository = "library/" + image.Repository
	}
	switch {
	case !hostPattern.MatchString(image.Registry), !repositoryPattern.MatchString(image.Repository):
		return Image{}, errName
	case digest != "" && !digestPattern.MatchString(digest):
		return Image{}, errors.New("has a digest that is none: write sha256: and 64 digits")
	}
	return image, nil
}

// cutTag cuts the part after the last colon, unless it is the port of a registry.
func cutTag(name string) (string, string) {
	at := strings.LastIndexByte(name, ':')
	if at < 0 || strings.Contains(name[at:], "/") {
		return name, ""
	}
	return name[:at], name[at+1:]
}

// isHost distinguishes registries from organisations of Docker Hub, as Docker does.
func isHost(text string) bool { return strings.ContainsAny(text, ".:") || text == "localhost" }

// Same reports whether two names are of one repository.
func (i Image) Same(other Image) bool {
	return i.Registry == other.Registry && i.Repository == other.Repository
}

// Name is the full name without tag: the same for all spellings.
func (i Image) Name() string { return i.Registry + "/" + i.Repository }

// Host is where the registry is: Docker Hub has another host than its name.
func (i Image) Host() string {
	if i.Registry == DockerHub {
		return "registry-1.docker.io"
	}
	return i.Registry
}

// IsTag reports whether a text can be a tag.
func IsTag(text string) bool { return tagPattern.MatchString(text) }
