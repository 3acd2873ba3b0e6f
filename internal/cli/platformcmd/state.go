package platformcmd

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"slipway.dev/slipway/internal/config"
	"slipway.dev/slipway/internal/secret"
)

const (
	// The names of the files in the state folder.
	platformDatabase = "platform.db"
	platformKeyFile  = "secret.key"
	// maxKeyBytes bounds the key file, in case the option names another file.
	maxKeyBytes = 4 << 10
)

// platformPlace is the location of a platform's state: its database and the key
// that encrypts secrets in it.
type platformPlace struct {
	database string // the URL of the store
	sqlite   bool
	dir      string // of the SQLite file, which has the socket for commands too
	keyFile  string
}

// platformPlaceOf returns the database and the key file of validated options.
// With SQLite both have defaults in the state folder. PostgreSQL needs both
// configured, because several replicas share them.
func platformPlaceOf(options *config.Platform) (platformPlace, error) {
	place := platformPlace{database: options.Database.URL.Reveal(), keyFile: options.Database.SecretKeyFile}
	if place.database == "" {
		dir, err := stateFolder(options.State.Dir)
		if err != nil {
			return place, err
		}
		place.database = (&url.URL{Scheme: "sqlite", Path: filepath.Join(dir, platformDatabase)}).String()
	}
	u, err := url.Parse(place.database)
	if err != nil {
		// The error of url.Parse would quote the URL, which may have a
		// password.
		return place, errors.New("database.url is not a URL")
	}
	if u.Scheme != "sqlite" {
		return place, nil
	}
	place.sqlite, place.dir = true, filepath.Dir(u.Path)
	// The key is beside the database, unless a state folder is configured.
	if place.keyFile == "" {
		dir := place.dir
		if options.State.Dir != "" {
			if dir, err = stateFolder(options.State.Dir); err != nil {
				return place, err
			}
		}
		place.keyFile = filepath.Join(dir, platformKeyFile)
	}
	return place, nil
}

// prepare creates the folders with mode 0700 and refuses a state folder that
// other users can read. PostgreSQL has no local state.
func (p platformPlace) prepare() error {
	if !p.sqlite {
		return nil
	}
	for _, dir := range []string{p.dir, filepath.Dir(p.keyFile)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("the folder for the state: %w: choose another with --state.dir", err)
		}
	}
	// MkdirAll does not change the mode of a folder that exists.
	info, err := os.Stat(p.dir)
	if err != nil {
		return fmt.Errorf("the folder for the state: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("others can look into %s, which has the database: run chmod 700 %s, or choose another folder with --state.dir", p.dir, p.dir)
	}
	return nil
}

// key reads the key file. With SQLite it is created at the first start, but
// never beside an existing database: secrets encrypted with the lost key could
// not be decrypted again.
func (p platformPlace) key() (secret.Text, error) {
	text, err := readKeyFile(p.keyFile)
	if !errors.Is(err, os.ErrNotExist) || !p.sqlite {
		return text, err
	}
	if u, _ := url.Parse(p.database); u != nil {
		if info, err := os.Stat(u.Path); err == nil && info.Size() > 0 {
			return secret.Text{}, fmt.Errorf("the key file %s is gone, but the database is there: put the key file back, or name it with --database.secretKeyFile", p.keyFile)
		}
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // it never fails
	fresh := hex.EncodeToString(random)
	// With O_EXCL one of two concurrent first starts fails, instead of both
	// using different keys.
	file, err := os.OpenFile(p.keyFile, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return secret.Text{}, fmt.Errorf("make the key file: %w", err)
	}
	_, err = file.WriteString(fresh + "\n")
	// The key is synced before it encrypts anything. A partial file is removed:
	// the next start would read it as the key.
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return secret.Text{}, errors.Join(fmt.Errorf("make the key file: %w", err), os.Remove(p.keyFile))
	}
	return secret.New(fresh), nil
}

// readKeyFile reads the key file and refuses one that is readable by others.
// Group access is allowed, because Kubernetes mounts Secrets with it (fsGroup).
func readKeyFile(name string) (secret.Text, error) {
	file, err := os.Open(name)
	if err != nil {
		return secret.Text{}, fmt.Errorf("the key file: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return secret.Text{}, fmt.Errorf("the key file: %w", err)
	}
	// Pipes and devices have no meaningful mode.
	if info.Mode().IsRegular() && info.Mode().Perm()&0o007 != 0 {
		return secret.Text{}, fmt.Errorf("everybody can read the key file %s: run chmod 600 %s", name, name)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxKeyBytes+1))
	if err != nil || len(text) > maxKeyBytes {
		return secret.Text{}, fmt.Errorf("the key file %s cannot be read, or is larger than %d bytes", name, maxKeyBytes)
	}
	return secret.New(strings.TrimSpace(string(text))), nil
}
