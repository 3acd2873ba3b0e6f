package node

import (
	"errors"
	"testing"
)

func TestWithPrograms(t *testing.T) {
	builtIn := func(ref string) (Image, error) { return Image{}, errors.New("no image " + ref) }
	resolve := WithPrograms(map[string]string{
		"registry.test:5000/echo": "/bin/echo", "registry.test/pinned:v2": "/bin/pinned",
	}, builtIn)
	for ref, want := range map[string]string{
		"registry.test:5000/echo":                       "/bin/echo",
		"registry.test:5000/echo:v1":                    "/bin/echo",
		"registry.test:5000/echo@sha256:0123":           "/bin/echo",
		"registry.test:5000/echo:v1@sha256:0123":        "/bin/echo",
		"registry.test/pinned:v2":                       "/bin/pinned",
		"registry.test/pinned:v3":                       "",
		"registry.test/pinned":                          "",
		"registry.test":                                 "",
		"registry.test:5000/other":                      "",
		"registry.test:5000/echo/more":                  "",
		"registry.test:5000/echo/more:registry.test/ec": "",
	} {
		image, err := resolve(ref)
		if image.Program != want || (err == nil) != (want != "") {
			t.Errorf("%s is %q, %v; want %q", ref, image.Program, err, want)
		}
	}
}
