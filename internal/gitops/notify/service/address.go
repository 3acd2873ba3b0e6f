package service

import (
	"fmt"
	"net/url"
)

// checkAddress checks an option that is the address of a server. The error does not have
// the address, which can have a token in it.
func checkAddress(option, address string) error {
	parsed, err := url.Parse(address)
	if err != nil || parsed.Host == "" || parsed.Scheme != "https" && parsed.Scheme != "http" {
		return fmt.Errorf("the option %s has to be the address of a server, such as https://example.com", option)
	}
	return nil
}
