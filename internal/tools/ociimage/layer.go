package main

import (
	"bytes"
	"compress/gzip"
	"encoding/pem"
	"fmt"
	"path"
	"path/filepath"
)

const (
	// userAndGroup are those of the charts: a number, so that Kubernetes can see that
	// it is not root.
	userAndGroup = "65532:65532"

	passwd = "root:x:0:0:root:/:/sbin/nologin\nnobody:x:65534:65534:nobody:/:/sbin/nologin\nslipway:x:65532:65532:slipway:/tmp:/sbin/nologin\n"
	group  = "root:x:0:\nnobody:x:65534:\nslipway:x:65532:\n"

	mostProgram     = 512 << 20
	mostAuthorities = 4 << 20
)

// layer is a part of the file system.
type layer struct {
	about            string
	unpacked, packed []byte
}

// buildLayers gives the surroundings, which seldom change, and the program.
func buildLayers(given options) ([]layer, error) {
	program, err := readBounded(given.binary, mostProgram)
	if err != nil {
		return nil, err
	}
	var authorities []byte
	if given.authorities != "" {
		if authorities, err = readAuthorities(given.authorities); err != nil {
			return nil, err
		}
	}
	base, err := pack("users, certificate authorities, /tmp", func(files *archive) {
		files.folder("etc", 0o755)
		files.file("etc/group", 0o644, []byte(group))
		files.file("etc/passwd", 0o644, []byte(passwd))
		if authorities != nil {
			files.folder("etc/ssl", 0o755)
			files.folder("etc/ssl/certs", 0o755)
			files.file("etc/ssl/certs/ca-certificates.crt", 0o644, authorities)
		}
		files.folder("tmp", 0o1777)
	})
	if err != nil {
		return nil, err
	}
	place := programPath(given.binary)
	top, err := pack("the program "+path.Base(place), func(files *archive) {
		for _, folder := range []string{"usr", "usr/local", "usr/local/bin"} {
			files.folder(folder, 0o755)
		}
		files.file(place[1:], 0o755, program)
	})
	return []layer{base, top}, err
}

// programPath is where the program is in the image.
func programPath(binary string) string {
	return "/usr/local/bin/" + path.Base(filepath.ToSlash(binary))
}

// readAuthorities refuses what is no list of certificates.
func readAuthorities(name string) ([]byte, error) {
	content, err := readBounded(name, mostAuthorities)
	if err != nil {
		return nil, fmt.Errorf("certificate authorities: %w (Debian has them in the package ca-certificates)", err)
	}
	if block, _ := pem.Decode(content); block == nil || block.Type != "CERTIFICATE" {
		return nil, fmt.Errorf("%s has no certificate in PEM", name)
	}
	return content, nil
}

func pack(about string, fill func(*archive)) (layer, error) {
	var unpacked, packed bytes.Buffer
	files := newArchive(&unpacked)
	fill(files)
	if err := files.close(); err != nil {
		return layer{}, err
	}
	writer := gzip.NewWriter(&packed)
	if _, err := writer.Write(unpacked.Bytes()); err != nil {
		return layer{}, err
	}
	err := writer.Close()
	return layer{about: about, unpacked: unpacked.Bytes(), packed: packed.Bytes()}, err
}
