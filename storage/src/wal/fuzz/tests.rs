use super::*;

#[test]
fn any_bytes_are_recovered_or_refused() {
    arbtest::arbtest(|u| {
        let mut data: Vec<u8> = u.arbitrary()?;
        if let Some(choice) = data.first_mut() {
            *choice %= 2;
        }
        recover_anything(&data);
        Ok(())
    })
    .budget_ms(1_000);
}

#[test]
fn any_damage_to_a_valid_log_is_survived_or_refused() {
    arbtest::arbtest(|u| {
        let mut data = vec![2];
        for _ in 0..u.int_in_range(1..=4)? {
            data.extend_from_slice(&u.arbitrary::<[u8; 5]>()?);
        }
        recover_anything(&data);
        Ok(())
    })
    .budget_ms(2_000);
}
