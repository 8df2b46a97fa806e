//! Inputs that nobody would write, made of inputs that somebody wrote: seeded, so that every one of them can be made again.

/// A stream of random numbers that is the same for ever (splitmix64, Steele, Lea, Flood 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// What mutations are made of.
#[derive(Debug)]
pub struct Corpus {
    /// Whole inputs.
    pub seeds: Vec<Vec<u8>>,
    /// Pieces that mean something to the reader.
    pub words: Vec<&'static [u8]>,
    /// Longest input.
    pub limit: usize,
}

impl Corpus {
    /// The input of a number.
    ///
    /// # Panics
    /// If the corpus is empty.
    pub fn input(&self, number: u64) -> Vec<u8> {
        let mut random = Random::new(number);
        let mut input = self.seeds[random.below(self.seeds.len())].clone();
        for _ in 0..=random.below(6) {
            self.change(&mut input, &mut random);
        }
        input.truncate(self.limit);
        input
    }

    fn change(&self, input: &mut Vec<u8>, random: &mut Random) {
        let at = random.below(input.len() + 1);
        let longest = 1 << random.below(12);
        let end = at + random.below(1 + (input.len() - at).min(longest));
        let piece: Vec<u8> = match random.below(3) {
            0 => self.words[random.below(self.words.len())].to_vec(),
            1 => input[at..end].to_vec(),
            _ => {
                let other = &self.seeds[random.below(self.seeds.len())];
                let from = random.below(other.len() + 1);
                let to = from + random.below(1 + (other.len() - from).min(200));
                other[from..to].to_vec()
            }
        };
        match random.below(8) {
            0 => drop(input.drain(at..end)),
            1 | 2 => drop(input.splice(at..at, piece)),
            3 | 4 => drop(input.splice(at..end, piece)),
            5 => {
                // Long lines, deep nesting, many keys: the same thing again and again.
                let most = 1 << random.below(14);
                let times = 1 + random.below(most);
                let times = times.min(self.limit / piece.len().max(1));
                drop(input.splice(at..at, piece.repeat(times)));
            }
            6 => input.truncate(at),
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = random.below(256) as u8;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_function_of_its_number() {
        let corpus = Corpus {
            seeds: vec![b"a: 1\nb: [2, 3]\n".to_vec(), b"c: {d: 4}\n".to_vec()],
            words: vec![b"{", b"&a "],
            limit: 500,
        };
        let inputs: Vec<Vec<u8>> = (0..200).map(|number| corpus.input(number)).collect();
        assert!(inputs.iter().all(|input| input.len() <= 500));
        assert_eq!(corpus.input(77), inputs[77]);
        let distinct: std::collections::HashSet<&Vec<u8>> = inputs.iter().collect();
        assert!(distinct.len() > 150, "only {} of 200 inputs differ", distinct.len());
    }
}
