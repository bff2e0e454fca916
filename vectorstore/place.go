package vectorstore

import (
	"math"
	"strings"
	"unicode/utf8"
)

// Geo is a place on the earth, in degrees: a property value, alone and not in a list. Its components are float32, as stores such as
// Weaviate hold them: exact to about a metre. [Within] finds what is near one.
type Geo struct {
	Latitude  float32 `json:"latitude"`  // -90 to 90
	Longitude float32 `json:"longitude"` // -180 to 180
}

func (g Geo) check() error {
	lat, long := float64(g.Latitude), float64(g.Longitude)
	if !(math.Abs(lat) <= 90 && math.Abs(long) <= 180) { // so that NaN is refused
		return valueError("a place at latitude %v, longitude %v", lat, long)
	}
	return nil
}

// earth is the mean radius of the earth in metres, as the haversine formula is usually given.
const earth = 6_371_000

// Metres returns the distance of two places along the surface of a sphere, by the haversine formula: to within half a percent.
func (g Geo) Metres(to Geo) float64 {
	radians := func(degrees float32) float64 { return float64(degrees) * math.Pi / 180 }
	lat, long := math.Sin((radians(to.Latitude)-radians(g.Latitude))/2), math.Sin((radians(to.Longitude)-radians(g.Longitude))/2)
	a := lat*lat + math.Cos(radians(g.Latitude))*math.Cos(radians(to.Latitude))*long*long
	return 2 * earth * math.Asin(math.Sqrt(min(1, a)))
}

// Phone is a phone number: a property value, alone and not in a list. A Store keeps it as it was given, and may refuse one that it
// cannot parse.
type Phone struct {
	// Input is the number as it was entered, internationally (+49 30 1234567) or in the form of Country.
	Input string `json:"input"`
	// Country is the country of a national number, by ISO 3166 in upper case (DE). Empty for an international one.
	Country string `json:"defaultCountry,omitempty"`
}

func (p Phone) check() error {
	country := len(p.Country) == 2 && strings.Trim(p.Country, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
	switch {
	case !utf8.ValidString(p.Input) || strings.TrimSpace(p.Input) == "":
		return valueError("a phone number without a number")
	case p.Country != "" && !country:
		return valueError("a phone number's country is not two letters in upper case")
	case p.Country == "" && !strings.HasPrefix(p.Input, "+"):
		return valueError("a phone number with neither + nor a country")
	}
	return nil
}
