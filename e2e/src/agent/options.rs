//! Sizes and seeds of the scenarios: `agent-inside FOLDER kills=50 storm=250`.

use crate::report::say;

/// The amounts.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// How often the agent is killed at a random moment.
    pub(crate) kills: u32,
    /// How many containers start and stop in the burst.
    pub(crate) storm: u32,
    /// For how many seconds containers come and go while memory and files are watched.
    pub(crate) soak: u64,
    /// At most so many vectors of the kubelet.
    pub(crate) vectors: usize,
    /// The seed of everything random.
    pub(crate) seed: u64,
    /// The themes to play; all if empty.
    pub(crate) only: Vec<String>,
    /// The policies of the kubelet to play; all if empty.
    pub(crate) policies: Vec<String>,
    /// Whether the machine runs nothing else: its CPUs may go offline, and its clock may be set.
    pub(crate) alone: bool,
    /// Whether themes that `agent` runs at length run with a few pods.
    pub(crate) brief: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            kills: 200,
            storm: 60,
            soak: 20,
            vectors: 40,
            seed: 20_260_730,
            only: Vec::new(),
            policies: Vec::new(),
            alone: false,
            brief: false,
        }
    }
}

impl Options {
    /// From `name=value` words.
    pub(crate) fn read(words: &[String]) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let number = || {
                let number = value.parse::<u64>();
                number.map_err(|_| format!("{word}: expected {name}= and a number"))
            };
            let small = || number().map(|number| u32::try_from(number).unwrap_or(u32::MAX));
            match name {
                "kills" => options.kills = small()?,
                "storm" => options.storm = small()?,
                "soak" => options.soak = number()?,
                "vectors" => options.vectors = usize::try_from(number()?).unwrap_or(usize::MAX),
                "seed" => options.seed = number()?,
                "only" => options.only = value.split(',').map(str::to_owned).collect(),
                "policies" => options.policies = value.split(',').map(str::to_owned).collect(),
                "alone" => options.alone = true,
                "brief" => options.brief = true,
                _ => {
                    return Err(format!(
                        "{word}: there are kills, storm, soak, vectors, seed, only, policies, alone and brief"
                    ));
                }
            }
        }
        say(format_args!("agent: {options:?}"));
        Ok(options)
    }

    /// Whether a theme is played.
    pub(crate) fn plays(&self, theme: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == theme)
    }
}
