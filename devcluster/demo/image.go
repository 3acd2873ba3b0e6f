// Package demo is the built-in image of the development cluster: an echo server
// with a version and a colour, so that a rollout is visible.
//
// The process node resolves an image by its reference and starts its own
// executable again with the image's arguments; that process calls Main. The
// server reports exactly the request that reached it, finishes running requests
// on SIGTERM, and exits when its standard input ends, so it never outlives the
// node that started it.
//
// It refuses every other image: nothing is downloaded and no other program is
// ever run.
package demo

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	repository = "slipway.dev/demo"
	maxVersion = 99

	// command is the first argument of the re-executed binary.
	command = "demo-echo"

	// Set by the image. VERSION and COLOUR, which belong to the container,
	// override them.
	envVersion = "SLIPWAY_DEMO_VERSION"
	envColour  = "SLIPWAY_DEMO_COLOUR"
)

// palette gives version N its colour, starting again after the last one, so
// two versions in a row always differ. The values are dark enough for white
// text.
var palette = []struct{ name, css string }{
	{"blue", "#1d4ed8"},
	{"green", "#15803d"},
	{"orange", "#c2410c"},
	{"purple", "#7e22ce"},
	{"red", "#b91c1c"},
	{"teal", "#0f766e"},
	{"pink", "#be185d"},
	{"brown", "#78350f"},
}

// Image is one built-in image and how its process is started.
type Image struct {
	Ref     string // complete reference with a tag, such as slipway.dev/demo:v2
	Version string // the tag, such as v2
	Colour  string // the colour's name, such as green

	Args []string // arguments of the re-executed binary; the container's follow them
	Env  []string // KEY=value; the container's environment is added to it
}

// Lookup returns the built-in image that ref names. The tags are v1 to v99,
// v-bad and v-slow, and no tag means v1. The error for any other reference is written for the
// person who reads it in the Pod's status.
func Lookup(ref string) (Image, error) {
	tag := "v1"
	if ref != repository {
		rest, ok := strings.CutPrefix(ref, repository+":")
		if !ok {
			return Image{}, unknownImage(ref)
		}
		tag = rest
	}
	if bad, ok := badVersions[tag]; ok {
		return newImage(tag, bad.Colour, bad.Env...), nil
	}
	number, ok := strings.CutPrefix(tag, "v")
	if !ok {
		return Image{}, unknownImage(ref)
	}
	n, err := strconv.Atoi(number)
	// The second spelling of a number (v01, v+1) is not a tag that exists.
	if err != nil || n < 1 || n > maxVersion || strconv.Itoa(n) != number {
		return Image{}, unknownImage(ref)
	}
	return newImage(tag, palette[(n-1)%len(palette)].name), nil
}

// newImage returns the image of a tag.
func newImage(tag, colour string, env ...string) Image {
	return Image{
		Ref:     repository + ":" + tag,
		Version: tag,
		Colour:  colour,
		Args:    []string{command},
		Env:     append([]string{envVersion + "=" + tag, envColour + "=" + colour}, env...),
	}
}

// unknownImage is the error for a reference that is no built-in image. It lists
// the images that exist, because it is shown in the Pod's status.
func unknownImage(ref string) error {
	return fmt.Errorf("image %q cannot run here: the process node runs only the built-in demo images as local processes: "+
		"%[2]s:v1 to %[2]s:v%[3]d, :v-bad and :v-slow (no tag means v1); for other images give the cluster a program with --image, or use a real cluster", ref, repository, maxVersion)
}
